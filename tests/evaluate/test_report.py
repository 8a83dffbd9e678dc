from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from checked_html import checked
from ranking_cases import dataset_of, random_case, ranking_of
from treetop.core.dataset import Dataset, LabelSet
from treetop.evaluate.match import Matches
from treetop.evaluate.report import charts
from treetop.evaluate.report.evaluation import Page, render, write_report
from treetop.evaluate.score import score_matches


def page_of(case, **options) -> Page:
    matches = Matches.of(*case.arguments)
    return Page.of(matches, score_matches(matches, resamples=20, **options), {"Model": "m", "Data": "d (test)"})


def test_page_is_whole_and_needs_nothing_from_outside(tmp_path: Path):
    page = page_of(random_case(1))
    target = write_report(tmp_path / "report", page)
    assert [p.name for p in target.parent.iterdir()] == ["index.html"]
    html = checked(target.read_text(encoding="utf-8"))
    assert "<h1>m on d (test)</h1>" in html
    for title in ("Data and model", "Metrics", "Along the ranking", "Frequent and rare labels", "Best and worst"):
        assert f"<h2>{title}" in html
    low, high = page.scores.intervals["P@1"]
    assert f"{page.scores['P@1']:.2f}<small>{low:.1f} – {high:.1f}</small>" in html


def test_names_cannot_break_the_page():
    case = random_case(2)
    evil = '"><script>alert(1)</script>'
    labels = LabelSet.of(list(case.dataset.labels.ids), [evil] * 40)
    case.dataset = Dataset(case.dataset.texts, case.dataset.Y, labels)
    html = checked(render(page_of(case)))
    assert "<script" not in html and "&lt;script&gt;" in html


def test_other_cuts_no_intervals_and_nothing_right():
    matches = Matches.of(ranking_of([{1: 1.0}, {}]), dataset_of([{0: 1.0}, {}], 2), np.array([3, 0]), 10)
    page = Page.of(matches, score_matches(matches, ks=(2,), resamples=0), {})
    html = checked(render(page))
    assert "<h1>Evaluation</h1>" in html and "95 %" not in html


def test_names_of_lines_do_not_cover_each_other():
    drawn = charts.lines({name: [50.0, end] for name, end in zip("abcd", (0.1, 0.2, 0.0, 50.0), strict=True)})
    places = sorted(float(y) for y in re.findall(r'class="end \w+" x="[\d.]+" y="([\d.]+)"', drawn))
    assert len(places) == 4 and min(np.diff(places)) >= 18.9 and places[-1] <= charts.HEIGHT - charts.BOTTOM + 6


@pytest.mark.parametrize(("value", "ceiling", "width"), [(5, 10, 50), (20, 10, 100), (-1, 10, 0), (1, 0, 0)])
def test_bars_stay_inside(value, ceiling, width):
    assert f'class="fill" width="{width:.2f}"' in charts.bar(value, ceiling)


def test_long_names_of_labels_are_cut():
    case = random_case(1)
    page = page_of(case)
    long = "averyveryverylongname" * 20
    html = checked(render(replace(page, best=[{**page.best[0], "name": long}])))
    assert html.count(long) == 1 and f'title="{long}"' in html


def trained(stage, epochs, **figures):
    return [
        {"stage": stage, "epoch": float(i), "step": 10 * i, "seconds": 2.0 * i, "loss": 1 / i}
        | {name: start + i for name, start in figures.items()}
        for i in range(1, epochs + 1)
    ]


def test_a_training_shows_a_chart_for_each_stage_with_figures():
    page = page_of(random_case(1))
    assert "<h2>Training" not in render(page)
    both = {"P@1": 20.0, "PSP@5": 5.0}
    points = [*trained("encoder", 30, **both), *trained('"><b>', 1, **both), *trained("without", 5)]
    html = checked(render(replace(page, training=points)))
    section = html[html.index("<h2>Training") :]
    assert section.count('<svg class="chart"') == 2 and html.count('id="inside"') == 1
    assert "<h3>encoder: 30 epochs, 300 steps, 60 s, loss 1 → 0.03333</h3>" in section
    assert "<title>P@1 at 30: 50.00</title>" in section and "&quot;&gt;&lt;b&gt;: 1 epochs" in section
    assert len(re.findall(r'class="tick" x="[\d.]+" y="[\d.]+" text-anchor="middle"', section)) <= charts.TICKS + 1


def tried(stage, *scores):
    return [
        {"stage": stage, "epoch": 0, "step": 500 * 4**i, "documents": 500 * 4**i, "P@1": p1, "P@5": p1 / 2}
        for i, p1 in enumerate(scores)
    ]


def test_trials_make_a_learning_curve_beside_the_training():
    page = page_of(random_case(1))
    points = [*tried("xr_linear", 20.0, 25.0, 31.0), *tried("<b>", 10.0, 12.0), *tried("once", 5.0)]
    html = checked(render(replace(page, training=[*points, *trained("encoder", 3, **{"P@1": 20.0})])))
    section = html[html.index("<h2>Learning curve") : html.index("<h2>Training")]
    assert section.count('<svg class="chart"') == 2 and "once" not in section and "&lt;b&gt;: P@1" in section
    assert "<h3>xr_linear: P@1 20.0 → 31.0 from 500 to 8,000 documents</h3>" in section
    assert "xr_linear" not in html[html.index("<h2>Training") :]
    assert "<h2>Training" not in checked(render(replace(page, training=points)))


@pytest.mark.parametrize("wrong", [{"P@1": 300.0}, {"documents": 500}])
def test_trials_that_fit_no_chart_leave_it_out_or_are_left_out(wrong):
    points = tried("xr_linear", 20.0, 25.0)
    points[1] |= wrong
    assert "Learning curve" not in checked(render(replace(page_of(random_case(1)), training=points)))


@pytest.mark.parametrize("wrong", [{"epoch": 1.0}, {"P@1": 300.0}, {"P@1": -5.0}])
def test_points_that_fit_no_chart_leave_it_out_or_are_left_out(wrong):
    points = trained("train", 3, **{"P@1": 20.0})
    points[1] |= wrong
    html = checked(render(replace(page_of(random_case(1)), training=points)))
    assert "<h3>train: 3 epochs" in html


@pytest.mark.parametrize(("epochs", "named"), [(1, 1), (20, 20), (21, 11), (500, 20)])
def test_an_axis_names_few_places(epochs, named):
    drawn = charts.lines({"P@1": [1.0] * epochs}, axis="epoch ", at=[float(i + 1) for i in range(epochs)])
    assert drawn.count('text-anchor="middle"') == named and "epoch 1<" in drawn
