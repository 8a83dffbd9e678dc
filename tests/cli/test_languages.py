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
