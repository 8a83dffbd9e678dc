"""Nothing that stands in data can move a terminal's cursor, change its colours or turn its letters around."""

import json
import re

import pytest

import treetop
from command import run

EVIL = "evil\x1b[31m\x9b2J\u202egnp\x07"
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
TEXTS = ["cat meows", "dog barks", "cat purrs", "dog runs"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("terminal")
    labels = [[EVIL, "pet"], ["dog"], [EVIL], ["dog", "pet"]]
    treetop.fit("xr_linear", TEXTS, labels, out=made / "model")
    rows = [json.dumps({"text": text, "labels": names}) for text, names in zip(TEXTS, labels, strict=True)]
    (made / "data.jsonl").write_text("\n".join(rows))
    (made / f"{EVIL}[link=x].jsonl").write_text("\n".join(rows))
    return made


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "model", "--text", "cat"],
        ["explain", "model", "--label", EVIL, "--data", "data.jsonl"],
        ["explain", "model", "--label", f"no {EVIL}", "--data", "data.jsonl"],
        ["labels", "list", "model"],
        ["labels", "retire", "model", f"no {EVIL}"],
        ["predict", f"{EVIL}"],
        ["fit", EVIL, "data.jsonl"],
        ["fit", "popular", f"{EVIL}[link=x].jsonl", "--dry-run"],
        ["fit", "popular", "data.jsonl", "--dry-run", "--set", f"{EVIL}=1"],
        ["data", "stats", f"{EVIL}[link=x].jsonl"],
    ],
    ids=str,
)
def test_data_reach_the_terminal_as_visible_characters(folder, words):
    found = run(*words, cwd=folder)
    said = found.stdout + found.stderr
    assert found.returncode in (0, 2) and "Traceback" not in said
    assert r"evil\u001b[31m\u009b2J\u202egnp" in said.replace("\n", "")
    assert not UNSEEN.search(said), UNSEEN.findall(said)


def test_an_error_about_a_huge_value_stays_readable(folder):
    long = "x" * 100_000  # what a command line may hold
    for words in (["fit", long, "data.jsonl"], ["labels", "retire", "model", long], ["recipes", long]):
        found = run(*words, cwd=folder)
        assert found.returncode == 2 and len(found.stderr) < 2100
        assert " ... " in found.stderr and found.stderr.startswith("error: ")


def test_log_lines_show_control_characters(capsys):
    from treetop.core import log

    try:
        log.show()
        log.logger.warning("%s holds %s", EVIL, "y" * 10_000)
    finally:
        log.logger.handlers = log.logger.handlers[:1]
    said = capsys.readouterr().err
    assert said.startswith(r"warning: evil\u001b[31m\u009b2J\u202egnp\u0007 holds yyy") and len(said) < 2100


def test_a_model_card_holds_names_as_text_only():
    from treetop.core.card import Card, readme

    name = "<script>alert(1)</script> [x](http://evil) ``` \n# head \u202e"
    card = Card("popular", {"note": f"```\n{EVIL}<b>"}, 0, {"name": name, "texts": 3, "sha256": "ab12"})
    lines = readme(card, 2, 3).split("\n")
    assert r"- name: ````<script>alert(1)</script> [x](http://evil) ``` \u000a# head \u202e````" in lines
    assert "- texts: 3" in lines and "- sha256: ab12" in lines
    assert not UNSEEN.search("".join(lines))
    assert [line for line in lines if line.startswith("```")] == ["```json", "```"]
    plain = Card("popular", {}, 0, {"name": "my_data-4k (2024)"})
    assert "- name: my_data-4k (2024)" in readme(plain, 2, 3)
