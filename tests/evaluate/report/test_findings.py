"""The sections of a report beyond the metrics."""

import dataclasses
import re
from html import unescape

import numpy as np
import pytest
from scipy import sparse

import toy
import treetop
from checked_html import checked
from ranking_cases import dataset_of, random_case, ranking_of
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts
from treetop.core.types import Ranking
from treetop.evaluate.match import Matches, match
from treetop.evaluate.report.evaluation import Page, render
from treetop.evaluate.report.findings import Findings
from treetop.evaluate.score import score_matches
from treetop.evaluate.trust import accept_for

TITLES = ("In short", "Probabilities", "Confused labels", "Likely missing labels", "Label tree")


@pytest.fixture(scope="module")
def model():
    tree = {"tree": {"max_leaf": 5, "branching": 2}}
    return treetop.fit("xr_linear", toy.dataset(n=300), settings=tree, held_out=toy.dataset(1, n=600))


def page_of(matches, dataset, levels=()):
    found = Findings.of(matches, dataset, levels)
    return Page.of(matches, score_matches(matches, resamples=20), {"Model": "m"}, findings=found)


def said(html):
    """The sentences at the top."""
    items = re.findall(r"<li>(.*?)</li>", html[: html.index("</section>")])
    return [unescape(item) for item in items]


def test_a_calibrated_tree_has_every_section(model):
    test = toy.dataset(2, n=400)
    matches = match(model, test)
    html = checked(render(page_of(matches, test, model.members[0])))
    titles = re.findall(r"<h2>(.*?)</h2>", html)
    assert titles[0] == "In short" and set(TITLES) <= {unescape(title) for title in titles}
    assert html.index("<h2>In short") < html.index('class="tiles"')
    sentences = said(html)
    assert 3 <= len(sentences) <= 5 and all(sentence.endswith(".") for sentence in sentences)
    assert f"{100 * matches.hits[:, 0].mean():.1f} % of the texts" in sentences[0]
    assert html.count('<svg class="plane"') == 2 and "Expected calibration error" in html
    half = score_matches(matches, resamples=0).thresholds[0]
    assert f'<td class="number">{half["microF1"]:.2f}</td>' in html and "best F1 on held-out texts" in html


def test_the_sentence_about_accepting_holds(model):
    test = toy.dataset(2, n=400)
    matches = match(model, test)
    wanted = next(p for p in (90, 80, 70) if accept_for(matches, p) is not None)
    row = accept_for(matches, wanted)
    rows = model.predict(list(test.texts), 5)
    kept = [
        test.Y[i, model.labels.columns[label.id]] > 0
        for i, labels in enumerate(rows)
        for label in labels
        if label.probability >= row.threshold
    ]
    assert row.precision == pytest.approx(100 * np.mean(kept)) and row.precision >= wanted
    assert row.share == pytest.approx(100 * len(kept) / sum(map(len, rows)))
    html = render(page_of(matches, test))
    if wanted == 90:
        assert f"accept ≥ {row.threshold:.2f}: {row.share:.0f} % of suggestions, {row.precision:.0f} % right" in html
    else:
        assert "No threshold makes nine in ten" in html and "at no threshold" in html


def test_without_probabilities_the_page_says_how_to_get_them():
    plain = treetop.fit("popular", toy.dataset(n=300))
    test = toy.dataset(2)
    html = checked(render(page_of(match(plain, test), test, plain.members[0])))
    assert "The model is not calibrated" in html and "treetop calibrate MODEL DATA" in html
    assert not any(f"<h2>{title}" in html for title in ("Probabilities", "Likely missing", "Label tree"))


def test_probabilities_that_do_not_hold_are_said_to():
    case = random_case(1, rows=300)
    bold = Matches.of(*case.arguments, probabilities=np.full(len(case.ranking.ids), 0.95, np.float32))
    html = checked(render(page_of(bold, case.dataset)))
    assert "mostly too high: these texts are unlike those" in html


def test_texts_and_names_cannot_break_the_page():
    case = random_case(2, rows=300)
    evil = '"><script>alert(1)</script>'
    names = [f"{evil} {i % 20}" for i in range(40)]
    labels = LabelSet.of(list(case.dataset.labels.ids), names)
    texts = Texts.of([evil * 40] * 300)
    data = dataclasses.replace(case.dataset, texts=texts, labels=labels)
    p = np.random.default_rng(0).random(len(case.ranking.ids)).astype(np.float32)
    matches = Matches.of(case.ranking, data, case.counts, case.n_train, probabilities=p)
    html = checked(render(page_of(matches, data)))
    assert "<script" not in html and "<h2>Nearly the same labels" in html and "<h2>Likely missing" in html
    assert "<details><summary>40 more</summary>" in html  # the first ten of fifty


def test_nothing_known_nothing_right_and_nothing_at_all():
    data = dataset_of([{0: 1.0}, {}], 2)
    for scores in ([{1: 1.0}, {}], [{}, {}]):
        ranking = ranking_of(scores)
        for p in (None, np.ones(len(ranking.ids), np.float32)):
            matches = Matches.of(ranking, data, np.array([3, 0]), 10, probabilities=p)
            html = checked(render(page_of(matches, data)))
            assert len(said(html)) >= 2


def test_a_page_stays_small_with_many_labels_and_long_names():
    n, rows = 6_000, 600
    rng = np.random.default_rng(0)
    labels = LabelSet.of([f"l{i}" for i in range(n)], [f"name {i % 2700} " + "long " * 400 for i in range(n)])
    Y = sparse.random(rows, n, 0.0017, format="csr", dtype=np.float32, random_state=0)
    Y.data[:] = 1
    data = Dataset(Texts.of(["a long text " * 500] * rows), Y, labels)
    ids = np.argsort(rng.random((rows, 30)), axis=1)[:, :10].astype(np.int32)
    ranking = Ranking.sorted(np.arange(0, 10 * rows + 1, 10), ids.ravel(), rng.random(10 * rows).astype(np.float32))
    matches = Matches.of(ranking, data, np.ones(n, np.int64), rows, probabilities=ranking.score)
    assert len(render(page_of(matches, data))) < 600_000
