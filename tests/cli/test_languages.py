"""The first hour of somebody whose texts put no spaces between words."""

import json

import pytest

from command import run

TITLES = {"library": "図書館学入門", "history": "日本の歴史", "tea": "茶の湯と茶道", "mountain": "富士山に登る"}
MORE = "入門書・第二版・研究・案内・写真集・手引き・資料・百科".split("・")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("japanese")
    rows = [
        {"text": f"{title}{end}{number}", "labels": [label]}
        for label, title in TITLES.items()
        for end in MORE
        for number in range(12)
    ]
    (folder / "train.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return folder


def test_titles_without_spaces_are_read_and_the_scripts_told(home):
    done = run("fit", "xr_linear", home, "--out", home / "model")
    assert done.returncode == 0 and "scripts: Han" in done.stderr and "no word" not in done.stderr
    for label, title in TITLES.items():
        done = run("predict", home / "model", "-k", "1", stdin=title + "\n")
        assert json.loads(done.stdout)["ids"] == [label]
        assert "no word the model knows" not in done.stderr
    assert "図書" in run("explain", home / "model", "--text", "図書館学入門").stdout


def test_settings_that_make_words_of_clauses_are_told(home):
    done = run("fit", "xr_linear", home, "--out", home / "words", "--set", "tfidf.unspaced=null", "--set",
               "tfidf.char_ngrams=null")  # fmt: skip
    said = " ".join(done.stderr.split())
    assert "of scripts without spaces between words, where whole clauses become words with these settings" in said
    assert "Set tfidf.tokenizer=unicode and tfidf.unspaced=[1, 2]" in said


@pytest.fixture
def finnish(tmp_path):
    """Titles in which no name of a label stands as it is."""
    forms = {"kirjastot": "kirjaston kirjastossa kirjastoista", "koulut": "koulun koulussa kouluista"}
    rows = [
        {"text": f"{form} historia {i}", "labels": [name]}
        for name in forms
        for i in range(9)
        for form in forms[name].split()
    ]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps({"id": name, "name": name}) + "\n" for name in forms))
    return tmp_path


def settings_of(model):
    return json.loads((model / "manifest.json").read_text())["config"]


def test_a_data_set_states_its_language_once(finnish):
    pytest.importorskip("Stemmer")
    done = run("fit", "lexical", finnish, "--out", finnish / "plain")
    assert "stems" not in done.stderr and settings_of(finnish / "plain")["language"] == ""
    (finnish / "dataset.json").write_text('{"language": "fi"}')
    done = run("fit", "lexical", finnish, "--out", finnish / "model")
    assert "words are compared by their finnish stems" in done.stderr, done.stderr
    assert settings_of(finnish / "model")["language"] == "finnish"
    assert json.loads(run("predict", finnish / "model", "-k", "1", stdin="kirjastojen vaiheita\n").stdout)["ids"] == [
        "kirjastot"
    ]
    run("fit", "xr_linear", finnish, "--out", finnish / "tree", "--set", "tfidf.stem=auto")
    assert settings_of(finnish / "tree")["tfidf"]["stem"] == "finnish"
    run("fit", "lexical", finnish, "--out", finnish / "other", "--language", "ja")
    assert settings_of(finnish / "other")["language"] == ""
    assert "Language: fi." in run("data", "stats", finnish).stdout
    run("data", "convert", finnish, finnish / "csv", "--to", "csv")
    assert json.loads((finnish / "csv/dataset.json").read_text())["language"] == "fi"


def test_a_language_that_is_none_is_refused(finnish):
    done = run("fit", "lexical", finnish, "--out", finnish / "m", "--language", "finish")
    assert done.returncode == 2 and "language: 'finish' is neither a tag, such as fi or pt-BR, nor" in done.stderr
    assert "Did you mean 'finnish'?" in done.stderr
    done = run("fit", "xr_linear", finnish, "--out", finnish / "m", "--set", "tfidf.stem=auto")
    assert "tfidf.stem: 'auto' is the language of the data, and these state none. Give --language" in done.stderr
    (finnish / "dataset.json").write_text('{"language": 3}')
    done = run("fit", "lexical", finnish, "--out", finnish / "m")
    assert "dataset.json: expected" in done.stderr and '"language": "fi"' in done.stderr
