"""Few documents: each is answered by a model that was not trained on it, and the answers teach one trained on all."""

import logging
import time
from dataclasses import replace

import numpy as np
import pytest

import toy
import treetop
from treetop.assemble.held_out.folds import FOLDS, Answers, _folds, answers, fitted_by_folds, may_fold
from treetop.assemble.held_out.hold_out import OFF, HoldOut
from treetop.core.texts import Texts
from treetop.core.work import Job
from treetop.training import plan

FEW, TEST = toy.dataset(2, n=1200), toy.dataset(4, n=800)


def rankings_of(model, data):
    ranking = model.rank_dataset(data, 10)
    return ranking.ids, ranking.score


def test_each_document_is_answered_once_by_a_model_that_has_not_seen_its_text():
    texts = [*FEW.texts]
    texts[7] = texts[3]
    data = replace(FEW, texts=Texts.of(texts))
    parts = _folds(data, 0)
    assert len(parts) == FOLDS
    np.testing.assert_array_equal(np.sort(np.concatenate([out for _, out in parts])), np.arange(len(data)))
    for kept, out in parts:
        assert not {texts[row] for row in kept} & {texts[row] for row in out}
        assert len(kept) + len(out) == len(data)
    turned = _folds(data.take(np.arange(len(data))[::-1]), 0)
    assert [{texts[len(data) - 1 - row] for row in out} for _, out in turned] == [
        {texts[r] for r in out} for _, out in parts
    ]


def test_answers_of_folds_are_those_of_each_with_columns_of_its_own():
    model = treetop.fit("neighbours", toy.dataset(5, n=200), calibrate=False)
    parts = [answers(model, FEW.take(np.arange(0, 60))), answers(model, FEW.take(np.arange(60, 100)))]
    whole = Answers.concat(parts)
    n = len(model.labels)
    assert len(whole.positives) == 100 and len(whole.counts) == 2 * n
    row = 0
    for number, part in enumerate(parts):
        for i in range(len(part.judged.pairs.indptr) - 1):
            here = slice(*whole.judged.pairs.indptr[row : row + 2])
            there = slice(*part.judged.pairs.indptr[i : i + 2])
            np.testing.assert_array_equal(whole.judged.pairs.ids[here], part.judged.pairs.ids[there] + number * n)
            np.testing.assert_array_equal(whole.judged.hit[here], part.judged.hit[there])
            np.testing.assert_array_equal(whole.judged.pairs.score[here], part.judged.pairs.score[there])
            row += 1
    np.testing.assert_array_equal(whole.counts, np.tile(model.counts, 2))


@pytest.mark.parametrize("recipe", ["xr_linear", "neighbours"])
def test_probabilities_hold_and_the_ranking_is_that_of_a_model_of_all_documents(recipe):
    model, plain = treetop.fit(recipe, FEW), treetop.fit(recipe, FEW, calibrate=False)
    assert model.n_train == len(FEW) and plain.calibration is None
    assert 0.9 * len(FEW) <= model.calibration.documents <= len(FEW)
    for one, other in zip(rankings_of(model, TEST), rankings_of(plain, TEST), strict=True):
        np.testing.assert_array_equal(one, other)
    ranking = model.rank_dataset(TEST, 3)
    rows = np.repeat(np.arange(len(TEST)), np.diff(ranking.indptr))
    right = np.asarray(TEST.Y[rows, ranking.ids]).ravel() > 0
    assert model.probabilities(ranking).mean() == pytest.approx(right.mean(), abs=0.05)


def test_a_blend_of_few_documents_is_fused_as_they_teach():
    settings = {"sources": ["xr_linear", "neighbours"]}
    model = treetop.fit("blend", FEW, settings=settings)
    assert model.fusion.scorer.n_sources == 2 and model.n_train == len(FEW) and model.calibration is not None
    best = max(treetop.fit(r, FEW, calibrate=False).evaluate(TEST, resamples=0)["P@1"] for r in settings["sources"])
    assert model.evaluate(TEST, resamples=0)["P@1"] >= best - 1.5
    few = treetop.fit("blend", FEW.take(np.arange(300)), settings=settings)
    assert few.fusion is None and few.calibration is None and len(few.members) == 2


def test_a_killed_run_goes_on_with_the_folds_that_are_done(tmp_path, monkeypatch):
    whole = treetop.fit("xr_linear", FEW, out=tmp_path / "whole")
    from treetop.assemble.held_out import folds

    monkeypatch.setattr(folds, "_taught", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        treetop.fit("xr_linear", FEW, out=tmp_path / "cut")
    assert len([*(tmp_path / "cut.work").glob("fold-*")]) == FOLDS
    monkeypatch.undo()
    assert treetop.fit("xr_linear", FEW, out=tmp_path / "cut", resume=True).seal == whole.seal


def test_without_time_for_five_more_trainings_the_model_stays_as_it_is(caplog):
    job = Job(ends=time.monotonic() + 3.0)
    with caplog.at_level(logging.WARNING, logger="treetop"):
        assert fitted_by_folds(None, None, FEW, job, 1.0) is None
    assert sum("no time for 5 models of parts of the documents" in line for line in caplog.messages) == 1


def test_folds_are_for_few_documents_and_recipes_that_train_in_seconds():
    assert may_fold(FEW) and not may_fold(toy.dataset(n=400)) and not may_fold(toy.dataset(n=6000))
    assert not plan("xr_linear").learns_by_folds(FEW, OFF)
    one, five = (plan("xr_linear").forecast(FEW, held=held).time for held in (OFF, HoldOut()))
    assert five == pytest.approx(FOLDS * one)
