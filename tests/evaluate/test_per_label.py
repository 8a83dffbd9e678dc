from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from ranking_cases import dataset_of, random_case, ranking_of
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import InputError
from treetop.evaluate.match import Matches
from treetop.evaluate.per_label import COLUMNS, extremes, label_rows, write_labels
from treetop.evaluate.score import score


def test_rows_by_hand():
    ranking = ranking_of([{0: 2.0, 1: 1.0}, {0: 2.0}, {0: 1.0}])
    dataset = dataset_of([{0: 1.0, 2: 1.0}, {0: 1.0}, {2: 1.0}], 4)
    rows = list(label_rows(Matches.of(ranking, dataset, np.array([7, 3, 1]), 100)))
    assert [row["id"] for row in rows] == ["l0", "l1", "l2"]
    assert rows[0] | {"F1": None} == dict(
        zip(COLUMNS, ["l0", "l0", 7, 2, 2, 1, 0, pytest.approx(200 / 3), 100.0, None], strict=True)
    )
    assert rows[0]["F1"] == pytest.approx(80)
    assert [rows[1][key] for key in COLUMNS[3:]] == [0, 0, 1, 0, 0.0, 0.0, 0.0]
    assert [rows[2][key] for key in COLUMNS[3:]] == [2, 0, 0, 2, 0.0, 0.0, 0.0]


def test_rows_average_to_macro_f1():
    case = random_case(13)
    rows = [row for row in label_rows(Matches.of(*case.arguments)) if row["test_positives"]]
    assert np.mean([row["F1"] for row in rows]) == pytest.approx(score(*case.arguments, resamples=0)["macroF1@5"])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_files_hold_the_rows(tmp_path: Path, suffix):
    case = random_case(14)
    labels = LabelSet.of(list(case.dataset.labels.ids), [f'na"me,\t{i}\nä' for i in range(40)])
    dataset = Dataset(case.dataset.texts, case.dataset.Y, labels)
    matches = Matches.of(case.ranking, dataset, case.counts, 100)
    path = tmp_path / "deep" / f"labels{suffix}"
    assert write_labels(matches, path) == len(list(label_rows(matches)))
    with path.open(encoding="utf-8", newline="") as file:
        if suffix == ".jsonl":
            read = [json.loads(line) for line in file]
        else:
            read = list(csv.DictReader(file, delimiter="\t" if suffix == ".tsv" else ","))
    assert [row["name"] for row in read] == [row["name"] for row in label_rows(matches)]
    assert [float(row["F1"]) for row in read] == [row["F1"] for row in label_rows(matches)]
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@x", "\tx", "\rx"])
def test_names_are_no_formulas_and_ids_stay(tmp_path: Path, name):
    case = random_case(14)
    labels = LabelSet.of([f"={i}\r" for i in range(40)], [name] * 40)
    matches = Matches.of(case.ranking, Dataset(case.dataset.texts, case.dataset.Y, labels), case.counts, 100)
    write_labels(matches, tmp_path / "labels.csv")
    with (tmp_path / "labels.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["name"] for row in rows} == {"'" + name}
    assert [row["id"] for row in rows] == [row["id"] for row in label_rows(matches)]


def test_unknown_ending_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"unknown ending '.xlsx' for the label report. Use .csv, .tsv, .jsonl"):
        write_labels(Matches.of(*random_case(0).arguments), tmp_path / "labels.xlsx")


def test_best_and_worst_do_not_overlap():
    matches = Matches.of(*random_case(15).arguments)
    best, worst = extremes(matches, 6)
    assert [row["F1"] for row in best] == sorted((row["F1"] for row in best), reverse=True)
    assert [row["F1"] for row in worst] == sorted(row["F1"] for row in worst)
    assert best[-1]["F1"] >= worst[-1]["F1"] and not {r["id"] for r in best} & {r["id"] for r in worst}
    one = Matches.of(ranking_of([{0: 1.0}]), dataset_of([{0: 1.0}], 1), np.ones(1, np.int64), 10)
    best, worst = extremes(one, 6)
    assert len(best) == 1 and worst == []
