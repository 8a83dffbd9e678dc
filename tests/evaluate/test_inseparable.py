import dataclasses

import numpy as np
import pytest
from scipy import sparse

import toy
import treetop
from treetop.core.dataset import Dataset, LabelSet
from treetop.evaluate import inseparable as module
from treetop.evaluate.inseparable import inseparable
from treetop.evaluate.match import match
from treetop.evaluate.report.findings import Findings


@pytest.fixture(scope="module")
def twins():
    """Label 40 stands wherever label 0 does, label 41 wherever label 1 does, but for one text."""
    data = toy.dataset(n=300)
    Y = data.Y.tocsc()
    second = Y[:, 1].copy()
    second.data[:1] = 0
    second.eliminate_zeros()
    whole = sparse.hstack([Y, Y[:, 0], second], format="csr").astype(np.float32)
    ids, names = [*data.labels.ids, "T0", "T1"], [*data.labels.names, "quite another name", "one more"]
    return Dataset(data.texts, whole, LabelSet.of(ids, names), name="twins")


@pytest.mark.parametrize("recipe", ["xr_linear", "dismec"])
def test_labels_on_the_same_texts_are_found(twins, recipe, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 7)
    model = treetop.fit(recipe, twins, settings={"tfidf": {"min_df": 1}})
    matches = match(model, twins)
    found = {frozenset(pair.columns): pair.similarity for pair in inseparable(model.members[0], matches)}
    assert found[frozenset({0, 40})] == pytest.approx(1.0, abs=1e-3) and frozenset({1, 41}) in found
    assert all(module.NEAR <= similarity <= 1.0 for similarity in found.values())
    assert inseparable(model.members[0], matches, n=1)[0].columns == (0, 40)
    retired = dataclasses.replace(matches, labels=model.retire_labels(["T0"]).labels)
    assert all(40 not in pair.columns for pair in inseparable(model.members[0], retired))


def test_they_stand_in_the_report_unless_their_names_are_the_same(twins):
    model = treetop.fit("xr_linear", twins, settings={"tfidf": {"min_df": 1}})
    alike = Findings.of(match(model, twins), twins, model.members[0]).alike
    pairs = [{label for label, _, _ in group.labels} for group in alike if group.similarity is not None]
    assert {"L00", "T0"} in pairs
    names = [*twins.labels.names[:40], twins.labels.names[0].upper(), "one more"]
    named = Dataset(twins.texts, twins.Y, LabelSet.of([*twins.labels.ids], names), name="named")
    model = treetop.fit("xr_linear", named, settings={"tfidf": {"min_df": 1}})
    alike = Findings.of(match(model, named), named, model.members[0]).alike
    groups = [g for g in alike if {"L00", "T0"} <= {label for label, _, _ in g.labels}]
    assert [(g.same, g.similarity) for g in groups] == [(True, None)]


def test_dense_vectors_and_zeros(twins):
    rows = np.array([[1, 0], [2, 0.01], [0, 0], [0, 1]], np.float32)
    best, similar = module._nearest(module._units(list(rows)))
    assert best[:2].tolist() == [1, 0] and similar[0] == pytest.approx(1.0, abs=1e-3) and np.isfinite(similar).all()


@pytest.mark.parametrize("recipe", ["popular", "neighbours"])
def test_labels_without_vectors_have_no_such_pairs(twins, recipe):
    model = treetop.fit(recipe, twins)
    assert inseparable(model.members[0], match(model, twins)) == [] == inseparable((), match(model, twins))


def test_rare_labels_are_not_compared():
    model = treetop.fit("xr_linear", ["a cat", "a dog"], [["x", "y"], ["z"]], settings={"tfidf": {"min_df": 1}})
    assert inseparable(model.members[0], match(model, toy.dataset(n=1))) == []
