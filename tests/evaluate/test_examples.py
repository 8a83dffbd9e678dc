from __future__ import annotations

import re

import numpy as np
import pytest

from checked_html import checked
from ranking_cases import dataset_of, random_case, ranking_of
from treetop.core.dataset import LabelSet
from treetop.core.errors import InputError
from treetop.core.texts import Texts
from treetop.evaluate.match import Matches
from treetop.evaluate.paired import difference
from treetop.evaluate.report import cards
from treetop.evaluate.report.cards import texts_section
from treetop.evaluate.report.evaluation import Page, render
from treetop.evaluate.report.examples import LONG, Examples, differing, from_worst_to_best, most_right
from treetop.evaluate.report.page import document
from treetop.evaluate.report.versus import Versus, write_versus
from treetop.evaluate.report.versus import render as render_versus
from treetop.evaluate.score import score_matches

COUNTS = np.array([50, 5, 6, 0, 1, 40])


def first(*labels: int) -> dict[int, float]:
    """A ranking with these labels in this order."""
    return {label: -float(place) for place, label in enumerate(labels)}


def data(true, texts=None, names=None, **extra):
    made = dataset_of([dict.fromkeys(row, 1.0) for row in true], len(COUNTS), **extra)
    texts = [f"text {i}" for i in range(len(true))] if texts is None else texts
    labels = LabelSet.of([*made.labels.ids], names or [f"name {i}" for i in range(len(COUNTS))])
    return made.__class__(Texts.of(texts), made.Y, labels, **extra)


def matched(dataset, *rankings):
    return {f"m{i}": Matches.of(ranking_of(rows), dataset, COUNTS, 100) for i, rows in enumerate(rankings)}


def page(examples: Examples) -> str:
    return checked(document("t", "l", texts_section(examples)))


def test_right_answers_bear_a_sign_and_rare_labels_their_count():
    dataset = data([[0, 1, 3]])
    examples = Examples.of(matched(dataset, [first(0, 2, 1)], [first(5, 3)]), dataset)
    (example,) = examples.texts
    assert [(a.name, a.right, a.count) for a in example.answers["m0"]] == [
        ("name 0", True, 50), ("name 2", False, 6), ("name 1", True, 5),
    ]  # fmt: skip
    assert [(t.name, t.count, t.found) for t in example.true] == [("name 0", 50, 1), ("name 1", 5, 1), ("name 3", 0, 1)]
    html = page(examples)
    right, wrong = f'<li class="right">{cards.RIGHT} ', f'<li class="wrong">{cards.WRONG} '
    assert (
        f"{right}<bdi>name 0</bdi></li>" in html and f"{wrong}<bdi>name 2</bdi></li>" in html
    )  # six training texts are not rare
    assert f'{right}<bdi>name 1</bdi> <span class="tag">rare: 5 training texts</span></li>' in html
    assert f'{right}<bdi>name 3</bdi> <span class="tag">rare: no training text</span></li>' in html
    assert html.count(cards.RIGHT) == 3 and html.count(cards.WRONG) == 2
    assert "m0 <span>2 of 3 right</span>" in html and "m1 <span>1 of 2 right</span>" in html
    assert "found by 1 of 2" in html and "✓" in cards.RIGHT and 'aria-label="right"' in cards.RIGHT


def test_texts_and_names_cannot_break_the_page():
    evil = '"><script>alert(1)</script>'
    dataset = data([[0]], [f"{evil} & co"], [evil] * 5 + [evil * 9], ids=Texts.of([evil]))
    matches = matched(dataset, [first(0, 5)])[("m0")]
    html = page(Examples.of({evil: matches, "other": matches}, dataset))
    assert "<script" not in html and html.count("&lt;script&gt;") >= 5
    assert '<blockquote dir="auto">&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt; &amp; co</blockquote>' in html


def test_texts_that_models_differ_in_most_come_first_then_those_with_rare_labels():
    true = [[0, 2], [0, 2], [1, 4], [0], [0, 2]]
    dataset = data(true)
    a = [first(0, 2), first(0), first(1, 4), first(0), first(5)]
    b = [first(5), first(0), first(5), first(5), first(0, 2)]
    examples = Examples.of(matched(dataset, a, b), dataset, n=4)
    assert [example.row for example in examples.texts] == [2, 0, 4, 3]  # 2 apart and rare, 2, 2, 1
    assert examples.steps == ((2, 3, 3), (1, 1, 1), (0, 1, 0))
    assert most_right(examples.right) == {"m0": (3, 4), "m1": (1, 2)}
    html = page(examples)
    assert "4 of 5 texts, chosen by rule" in html and "Difference in right labels" in html
    assert html.index("Text 3 of 5") < html.index("Text 1 of 5") < html.index("Text 5 of 5") < html.index("Text 4 of 5")


def test_equal_ones_are_taken_evenly_always_the_same_and_no_text_twice():
    texts = Texts.of([f"text {i}" for i in range(100)])
    keys = np.where(np.arange(100) < 2, 3, 1)
    chosen = differing(keys, texts, 10)
    assert chosen == differing(keys.copy(), texts, 10) and chosen[:2] == [0, 1]
    assert len(set(chosen)) == 10 and max(np.diff(chosen[2:])) <= 13 and chosen[-1] > 85
    same = Texts.of(["same"] * 50 + [f"text {i}" for i in range(50)])
    read = [same[row] for row in differing(np.zeros(100, np.int64), same, 10)]
    assert len(set(read)) == len(read) and len(read) >= 6
    empty = Texts.of([""] * 20)  # data that came as numbers
    assert len(differing(np.zeros(20, np.int64), empty, 10)) == 10
    assert differing(np.zeros(3, np.int64), texts, 10) == [0, 1, 2]


def test_one_model_is_shown_from_worst_to_best():
    right = np.repeat([2, 0, 1], [10, 70, 20])
    texts = Texts.of([f"text {i}" for i in range(100)])
    assert right[from_worst_to_best(right, texts, 10)].tolist() == [0] * 7 + [1] * 2 + [2]
    dataset = data([[0], [0, 1]])
    examples = Examples.of(matched(dataset, [first(0), first(5)]), dataset)
    assert [example.row for example in examples.texts] == [1, 0] and examples.steps == ((0, 1, 1), (1, 1, 1))
    html = page(examples)
    assert "each stands for about one in 2" in html and "not found" in html and "Most right" not in html


def test_small_k_empty_answers_no_labels_and_long_texts():
    dataset = data([[0, 5], []], ["word " * 400, ""])
    examples = Examples.of(matched(dataset, [first(1, 0, 5), {}], [first(0), {}]), dataset, k=1)
    long, bare = examples.texts
    assert [len(answers) for answers in long.answers.values()] == [1, 1] and long.left_out > 0
    assert len(long.text) <= LONG and len(long.text) + long.left_out == 1999
    assert examples.right["m0"].tolist() == [0, 0] and examples.right["m1"].tolist() == [1, 0]
    assert bare.true == () and bare.answers == {"m0": (), "m1": ()}
    html = page(examples)
    assert "characters more" in html and "(no text)" in html and html.count("no answer") == 2
    assert "among the first 1 differ" in html and "<small>none</small>" in html
    deep = Examples.of(matched(dataset, [first(1, 0, 5, 2, 3, 4), {}]), dataset, k=10)
    assert deep.k == 5 and max(len(example.answers["m0"]) for example in deep.texts) == 5


def test_labels_no_model_knows_and_rows_that_are_no_documents():
    dataset = data([[5], [0]], roles=np.array([1, 0], np.uint8))
    known = Matches.of(ranking_of([{}, first(0)]), dataset, COUNTS[:3], 100)
    (example,) = Examples.of({"m": known}, dataset).texts
    assert example.text == "text 1" and example.answers["m"][0].right
    dataset = data([[5]])
    html = page(Examples.of({"m": Matches.of(ranking_of([first(0)]), dataset, COUNTS[:3], 100)}, dataset))
    assert '<bdi>name 5</bdi> <span class="tag">unknown to the model</span>' in html
    with pytest.raises(InputError, match="m has answers to 1 of 2 documents"):
        Examples.of({"m": known}, data([[0], [1]]))


def test_marks_agree_with_the_metrics():
    case = random_case(5)
    matches = Matches.of(*case.arguments)
    examples = Examples.of({"m": matches}, case.dataset, n=120)
    counts = {row.row: sum(a.right for a in row.answers["m"]) for row in examples.texts}
    assert len(counts) == 120 and sum(counts.values()) / 5 / 120 * 100 == pytest.approx(
        score_matches(matches, resamples=0)["P@5"]
    )


def test_the_page_of_one_model_ends_with_texts():
    case = random_case(1)
    matches = Matches.of(*case.arguments)
    examples = Examples.of({"m": matches}, case.dataset)
    html = checked(render(Page.of(matches, score_matches(matches, resamples=20), {}, examples=examples)))
    assert "Texts from the worst to the best answered" in html and html.count("<article>") == 10


def test_the_page_of_several_models_is_whole(tmp_path):
    dataset = data([[0, 1], [2], [0], [4]] * 5)
    models = matched(dataset, [first(0, 3)] * 20, [first(0, 1), first(2), first(0), first(4)] * 5)
    scores = {name: score_matches(matches, resamples=50) for name, matches in models.items()}
    found = {"m1": difference(models["m0"], models["m1"], resamples=50, flips=99)}
    facts = {"m0": {"Recipe": "<r>"}, "m1": {}}
    made = Versus("d (test)", facts, scores, found, Examples.of(models, dataset), "Mind <this>.")
    target = write_versus(tmp_path / "new", made)
    html = checked(target.read_text(encoding="utf-8"))
    assert "<h1>2 models on d (test)</h1>" in html and "Mind &lt;this&gt;." in html and "&lt;r&gt;" in html
    for title in ("Models", "Scores", "Paired differences", "Frequent and rare labels", "Texts on which the models"):
        assert f"<h2>{title}" in html
    d = found["m1"]["P@1"]
    assert d.interval[0] > 0 and f"▲</span> {d.value:+.2f}<small>{d.interval[0]:+.2f} to" in html
    second = html[html.index("Paired differences") :]
    assert second.index("<th>P@1<") < second.index("<th>P@3<") < second.index("<th>R@1<")  # as in the table of scores
    row = re.search(r"<tr><th>P@1</th>(.*?)</tr>", html)[1]
    assert row.count("★") == 1 and row.index("★") < row.index(f"<b>{scores['m1']['P@1']:.2f}</b>")
    alone = Versus("d", {"m0": {}}, {"m0": scores["m0"]}, {}, Examples.of({"m0": models["m0"]}, dataset))
    assert "★</span>" not in checked(render_versus(alone)) and "Paired" not in render_versus(alone)


def test_labels_of_a_model_without_names_bear_those_of_the_data():
    dataset = data([[0]])
    bare = data([[0]], names=[*dataset.labels.ids])  # the model was trained on ids alone
    matches = Matches.of(ranking_of([first(0, 2)]), bare, COUNTS, 100)
    (example,) = Examples.of({"m": matches}, dataset).texts
    assert [answer.name for answer in example.answers["m"]] == ["name 0", "name 2"]
