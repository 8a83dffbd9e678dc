"""Label texts as rows: targets, choices of labels and documents, equal texts, barred pairs, refusals."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("torch")
import toy
from treetop.assemble import label_graph
from treetop.augment import gandalf, glas, identity, label_mixup, random_walk
from treetop.augment.label_texts import RowsConfig, chosen, shared_by_twins
from treetop.core.dataset import LABEL_TEXT, LabelSet
from treetop.core.errors import ConfigError, InputError
from treetop.core.work import Job
from treetop.evaluate.slices import equal_volume
from treetop.kernels import reference

N, L = toy.N_DOCUMENTS, toy.N_LABELS


def distinct():
    """The toy data; no two labels have the same text."""
    data = toy.dataset()
    texts = [f"{text} {i}" for i, text in enumerate(data.labels.texts)]
    return dataclasses.replace(data, labels=LabelSet.of([*data.labels.ids], [*data.labels.names], texts))


def test_gandalf_rows_are_label_texts_with_conditional_shares():
    data = distinct()
    made = gandalf.rows(data, gandalf.Config(delta=0.3), Job())
    assert len(made) == N + L and made.Y.dtype == np.float32
    assert [*made.texts][N:] == [*data.labels.texts]
    np.testing.assert_allclose(made.Y[N:].toarray(), reference.label_shares(data.Y.toarray(), 0.3, 1.0), rtol=1e-6)
    assert np.array_equal(made.Y[:N].toarray(), data.Y.toarray())
    # frequencies, and all that follows from them, are those of the documents
    assert np.array_equal(made.label_counts, data.label_counts) and made.documents.sum() == N
    assert made.sample is None and (made.roles[N:] == LABEL_TEXT).all()
    unseen = int(np.flatnonzero(data.label_counts == 0)[0])
    assert made.Y[N + unseen].toarray().ravel().tolist() == np.eye(L)[unseen].tolist()


def test_graph_is_a_stage(tmp_path, monkeypatch):
    data, job = distinct(), Job(work=tmp_path)
    first = gandalf.rows(data, gandalf.Config(), job)
    monkeypatch.setattr(label_graph, "share_graph", None)
    again = gandalf.rows(data, gandalf.Config(), job)
    assert (first.Y != again.Y).nnz == 0 and (tmp_path / "gandalf-graph").is_dir()


def test_the_other_targets():
    data = distinct()
    Y = data.Y.toarray()
    own = identity.rows(data, identity.Config(), Job()).Y[N:].toarray()
    assert np.array_equal(own, np.eye(L))
    S = reference.label_shares(Y, 0.0, symmetric=True)
    rows = glas.rows(data, glas.Config(form="rows"), Job()).Y[N:].toarray()
    np.testing.assert_allclose(rows, np.where(S > 0, 1 / (1 + np.exp(-S)), 0), rtol=1e-5)
    assert glas.rows(data, glas.Config(), Job()) is data
    penalty = glas.penalty(data, glas.Config(labels_per_step=7), Job())
    np.testing.assert_allclose(penalty.S.toarray(), S, rtol=1e-6)
    assert glas.penalty(data, glas.Config(form="rows"), Job()) is None
    walks = random_walk.rows(data, random_walk.Config(hops=50, neighbours=4), Job(seed=2)).Y[N:]
    assert (walks.diagonal() == 1).all() and walks.data.max() <= 1 and np.diff(walks.indptr).max() <= 5


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_some_labels_at_random_or_the_rarest_first(share):
    data = distinct()
    every = np.arange(L)
    for order in ("random", "tail"):
        found = chosen(data, every, RowsConfig(label_fraction=share, label_order=order), np.random.default_rng(0))
        assert len(found) == round(share * L) and np.array_equal(found, np.unique(found))
    if 0 < share < 1:
        volume = equal_volume(data.label_counts, data.labels)
        rarity = np.where(volume < 0, 5, volume)
        left = np.setdiff1d(every, found)
        assert rarity[found].min() >= rarity[left].max()
    made = gandalf.rows(data, gandalf.Config(label_fraction=share, label_order="tail"), Job())
    assert len(made) == N + round(share * L)


def test_label_texts_alone_and_the_same_budget():
    data = distinct()
    alone = gandalf.rows(data, gandalf.Config(train_on="labels"), Job())
    assert np.array_equal(alone.sample, np.arange(N + L) >= N)
    same = gandalf.rows(data, gandalf.Config(train_on="same_budget"), Job())
    assert same.sample.sum() == N and len(same) > N and same.sample[N:].all() and not same.sample[:N].all()
    for made in (alone, same):  # documents stay for trees and frequencies
        assert np.array_equal(made.label_counts, data.label_counts)
    assert gandalf.needs(gandalf.Config()) == ["rows", "soft"]
    assert "sample" in gandalf.needs(gandalf.Config(train_on="labels"))


def test_labels_of_one_text_share_their_targets():
    T = np.eye(5, dtype=np.float32)
    T[0, 3], T[2, 3], T[2, 4] = 0.2, 0.5, 0.3
    made = shared_by_twins(sparse.csr_matrix(T), np.array([0, 1, 0, 3, 4]), np.arange(5)).toarray()
    both = np.maximum(T[0], T[2])
    assert np.array_equal(made, np.stack([both, T[1], both, T[3], T[4]]))
    for labels in (np.arange(5), np.array([1, 2])):
        some = shared_by_twins(sparse.csr_matrix(T), np.array([0, 1, 0, 3, 4]), labels).toarray()
        assert np.array_equal(some, made[labels])
        assert np.array_equal(shared_by_twins(sparse.csr_matrix(T), np.arange(5), labels).toarray(), T[labels])
    data = distinct()
    texts = [*data.labels.texts]
    texts[7] = texts[3].upper() + " "
    data = dataclasses.replace(data, labels=LabelSet.of([*data.labels.ids], [*data.labels.names], texts))
    rows = identity.rows(data, identity.Config(), Job()).Y[N:].toarray()
    assert rows[3].tolist() == rows[7].tolist() and rows[3].sum() == 2


def test_barred_pairs_are_not_counted_and_bar_the_equal_label_text(caplog):
    caplog.set_level("INFO", "treetop")
    data = toy.barred()
    pairs = data.filter_pairs
    made = gandalf.rows(data, gandalf.Config(delta=0.0), Job())
    plain = data.Y.toarray()
    plain[pairs[:, 0], pairs[:, 1]] = 0
    wanted = np.delete(reference.label_shares(plain, 0.0, 1.0), 4, 0)  # label 4 is barred for its own text: no row
    np.testing.assert_allclose(made.Y[N:].toarray(), wanted, rtol=1e-6)
    assert "gandalf: no row for labels that the filter excludes for their own text: 1" in caplog.text
    # the text of label 11 may not learn `first` as a negative
    assert made.filter_pairs.tolist() == [*pairs.tolist(), [N + 10, pairs[0, 1]]]
    # and mixtures have no such partner
    mixed = label_mixup.rows(data, label_mixup.Config(), Job())
    assert mixed.filter_pairs.tolist() == made.filter_pairs.tolist()
    assert np.flatnonzero(label_mixup.mix(mixed, label_mixup.Config(), Job()).row < 0).tolist() == [4]


def test_what_leaves_nothing_to_learn_is_refused():
    data = distinct()
    own = dataclasses.replace(data.take(np.arange(L)), texts=data.labels.texts)
    barred = dataclasses.replace(own, filter_pairs=np.stack([np.arange(L)] * 2, 1))
    for module in (gandalf, identity, random_walk, label_mixup):
        with pytest.raises(InputError, match=r"the filter of toy excludes every label for its own text, so no row"):
            module.rows(barred, module.Config(), Job())
    for module in (gandalf, identity, random_walk):
        with pytest.raises(ConfigError, match=r"\.label_fraction: with 0\.01 no label text .*train_on=labels"):
            module.rows(data, module.Config(train_on="labels", label_fraction=0.01), Job())
        assert len(module.rows(data, module.Config(label_fraction=0.01), Job())) == N


def test_labels_without_text_get_no_row_and_codes_are_refused(caplog):
    data = distinct()
    texts = ["" if i in (4, 9) else text for i, text in enumerate(data.labels.texts)]
    data = dataclasses.replace(data, labels=LabelSet.of([*data.labels.ids], texts=texts))
    made = gandalf.rows(data, gandalf.Config(), Job())
    assert len(made) == N + L - 2 and "2 labels have no text" in caplog.text
    assert made.Y[N + 4].toarray()[0, 5] == 1  # rows and targets stay together
    codes = dataclasses.replace(data, labels=LabelSet.of([*data.labels.ids]))
    for module in (gandalf, identity, random_walk, label_mixup):
        with pytest.raises(
            InputError, match=r"no label of toy has a text or a name other than its id\. Give label texts"
        ):
            module.rows(codes, module.Config(), Job())
    given = dataclasses.replace(data, features={"given": sparse.csr_matrix((N, 3), dtype=np.float32)})
    with pytest.raises(InputError, match="gandalf: toy has precomputed features"):
        gandalf.rows(given, gandalf.Config(), Job())


def test_label_mixup_knows_its_rows_beside_those_of_others():
    data = distinct()
    made = label_mixup.rows(data, label_mixup.Config(), Job())
    made = gandalf.rows(made, gandalf.Config(), Job())
    hook = label_mixup.mix(made, label_mixup.Config(), Job())
    assert np.array_equal(hook.row, N + np.arange(L))
    assert np.array_equal(np.flatnonzero(~made.sample), N + np.arange(L))
