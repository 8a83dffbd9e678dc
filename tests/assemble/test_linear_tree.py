"""The linear tree end to end on toy data: fused walk, level loop and exhaustive path scores agree."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import toy
import treetop
from treetop.assemble.linear.tree import LinearConfig, Task, _members, level_relevance, targets_at, train_member
from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.core.types import LabelTree, Level, Ranking
from treetop.core.work import Job
from treetop.features.tfidf.tfidf import Tfidf, TfidfConfig
from treetop.kernels.runtime import threads
from treetop.kernels.sparse import Rows
from treetop.kernels.tree import chunk_sums
from treetop.labels.pifa import pifa
from treetop.partition.balanced import BalancedConfig, balanced
from treetop.partition.kmeans import KmeansConfig, kmeans
from treetop.predict.beam import descend, step
from treetop.rank import linear
from treetop.rank.linear import Linear
from treetop.shortlist.descend import Descend


def same(a: Ranking, b: Ranking) -> bool:
    return all(np.array_equal(getattr(a, f), getattr(b, f)) for f in ("indptr", "ids", "score", "own"))


@pytest.fixture(scope="module")
def parts():
    data = toy.dataset(n=300)
    tfidf, X = Tfidf.fit_transform(data.texts, TfidfConfig())
    tree = balanced(pifa(X, data.Y), BalancedConfig(max_leaf=5, branching=2), seed=0)
    return data, X, tree, tfidf.views(toy.dataset(1).texts)["tfidf"]


def levels_of(parts, **changes) -> list[Level]:
    data, X, tree, _ = parts
    return train_member(Task(X, data.Y), tree, "v", LinearConfig(**changes), job=Job(), name="t")


def margin_of(rank, row, node):
    """The bias and what each feature of a row adds to a node's margin."""
    found, x = rank.gradient(row, node), np.asarray(row.todense()).ravel()
    return found.bias + (found.weights.astype(np.float64) * x[found.columns]).sum()


def slow_scores(levels, tree, X, k):
    """Every label's path score, each margin summed from its contributions."""
    made = []
    for row in range(X.shape[0]):
        above = np.ones(1)
        for t, level in enumerate(levels):
            margins = np.empty(len(tree.parents[t]))
            for node in range(len(margins)):
                margins[node] = margin_of(level.rank, X[row], node)
            own = level.join.own(margins.astype(np.float32)).astype(np.float64)
            above = own * above[tree.parents[t]] if t else own
        made.append(above)
    return np.array(made)


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
@pytest.mark.parametrize("transform", ["hinge3", "sigmoid", "log_sigmoid", "hinge1", "log_hinge2", "noop"])
def test_fused_walk_equals_the_level_loop(parts, storage, transform):
    levels = levels_of(parts, storage=storage, transform=transform, beam=3)
    X = parts[3]
    fused = descend(levels, {"v": X}, 7)
    above = named = None
    for t, level in enumerate(levels):
        keep = level.beam if t < len(levels) - 1 else 7
        above = step(level, {"v": X}, above, keep)
        named = level.rank.rank(X, level.shortlist.candidates(X, named), level.join, keep)  # children one by one
        assert same(above, named)
    assert same(fused, above)
    one_by_one = Ranking.concat([descend(levels, {"v": X[i]}, 7) for i in range(X.shape[0])])
    assert same(fused, one_by_one)


def test_blocks_of_texts_and_other_siblings_do_not_matter(parts, monkeypatch):
    levels, X = levels_of(parts, beam=3), sparse.vstack([parts[3]] * 3, format="csr")
    above = step(levels[0], {"v": X}, None, 3)
    whole = step(levels[1], {"v": X}, above, 5)
    monkeypatch.setattr(linear, "MANY", 1)
    with threads.limited(3):
        assert same(whole, step(levels[1], {"v": X}, above, 5))
    names = levels[1].shortlist
    swapped = Descend(names.indptr, names.children[::-1].copy())  # not the chunks: named one by one
    assert levels[1].rank.below(X, swapped, above, levels[1].join, 5) is None
    assert levels[1].rank.below(X, names, above, levels[1].join, 5) is not None


def test_a_full_beam_equals_exhaustive_scores(parts):
    levels = levels_of(parts, beam=1000)
    X, tree = parts[3][:12], parts[2]
    slow = slow_scores(levels, tree, X, 40)
    found = descend(levels, {"v": X}, 40)
    never = np.bincount(parts[0].Y.indices, minlength=40) == 0
    for row in range(12):
        a, b = found.indptr[row], found.indptr[row + 1]
        assert np.allclose(found.score[a:b], slow[row][found.ids[a:b]], atol=1e-6)
        assert not never[found.ids[a:b]].any() and b - a == (~never).sum()


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
@pytest.mark.parametrize("negatives", ["tfn", "man", "tfn+man"])
def test_threads_do_not_matter(parts, loss, negatives):
    made = []
    for n in (1, 3):
        with threads.limited(n):
            made.append(levels_of(parts, loss=loss, negatives=negatives, train_beam=3))
    for a, b in zip(*made, strict=True):
        for name, array in a.rank.weights._asdict().items():
            assert np.array_equal(array, getattr(b.rank.weights, name)), name


def test_targets_and_negatives(parts):
    data, X, tree, _ = parts
    targets = [targets_at(data.Y, tree, t) for t in range(len(tree.parents))]
    assert [y.shape[1] for y in targets] == tree.sizes
    for t in range(1, len(targets)):
        dense = np.zeros(targets[t - 1].shape)
        for node, parent in enumerate(tree.parents[t]):
            dense[:, parent] += targets[t].toarray()[:, node]
        assert np.array_equal(targets[t - 1].toarray(), dense)
    levels = levels_of(parts)
    task = Task(X, data.Y)
    t = len(tree.parents) - 1
    tfn = _members(task, tree, levels[:t], t, LinearConfig(negatives="tfn"))
    man = _members(task, tree, levels[:t], t, LinearConfig(negatives="man", train_beam=2))
    both = _members(task, tree, levels[:t], t, LinearConfig(negatives="tfn+man", train_beam=2))
    positive = tfn[0].toarray() > 0
    assert ((man[0].toarray() > 0) >= positive).all()  # positives are always rows
    assert (man[1].toarray() > 0).sum(1).max() <= 2  # but only the beam gives negatives
    assert np.array_equal(both[0].toarray() > 0, (man[1].toarray() > 0) | positive)
    late = LinearConfig(negatives="man_last", train_beam=2)
    for depth in range(1, t + 1):
        found = _members(task, tree, levels[:depth], depth, late)
        twin = LinearConfig(negatives="tfn+man" if depth == t else "tfn", train_beam=2)
        wanted = _members(task, tree, levels[:depth], depth, twin)
        assert all(np.array_equal(a.toarray() > 0, b.toarray() > 0) for a, b in zip(found, wanted, strict=True))


def test_the_last_level_may_stand_alone(parts):
    levels = levels_of(parts, last_transform="noop", beam=1000)
    assert levels[0].join.transform == "hinge3" and levels[-1].join.transform == "noop"
    found = descend(levels, {"v": parts[3]}, 5)
    for row, (a, b) in enumerate(zip(found.indptr[:4], found.indptr[1:5], strict=True)):
        for p in range(a, b):
            margin = margin_of(levels[-1].rank, parts[3][row], found.ids[p])
            assert found.score[p] == pytest.approx(margin, abs=1e-5)


def test_relevance_is_induced_and_scaled(parts):
    data, X, tree, _ = parts
    made = level_relevance(Task(X, data.Y, data.Y * 4), tree, "induce", "l1")
    for R in made:
        sums = np.asarray(R.sum(1)).ravel()
        assert np.allclose(sums[sums > 0], 1)
    only = level_relevance(Task(X, data.Y), tree, "labels", "max")
    assert only[0] is None and only[-1].data.max() == 1
    weighted = levels_of(parts, relevance="induce")
    assert not np.array_equal(weighted[-1].rank.weights.weights, levels_of(parts)[-1].rank.weights.weights)


def test_filter_pairs_are_no_negatives(parts):
    """A text that must not count against a label pulls its score up when it is left out."""
    data, X, tree, _ = parts
    label = int(np.argmax(np.bincount(data.Y.indices)))
    siblings = np.flatnonzero(tree.parents[-1] == tree.parents[-1][label])
    rows = np.flatnonzero(np.asarray(data.Y[:, siblings].sum(1)).ravel() * (data.Y[:, [label]].toarray().ravel() == 0))
    pairs = np.column_stack([rows, np.full(len(rows), label)])
    task = Task(X, data.Y, None, pairs)
    left_out = train_member(task, tree, "v", LinearConfig(), job=Job(), name="t")
    X = parts[1][rows]

    def margin(levels):
        ranks = [levels[-1].rank.gradient(X[i], label) for i in range(X.shape[0])]
        return np.mean([margin_of(levels[-1].rank, X[i], label) - found.bias for i, found in enumerate(ranks)])

    assert margin(left_out) > margin(levels_of(parts))


def test_copies_pass_their_parent_on():
    data = toy.dataset(n=300)
    tfidf, X = Tfidf.fit_transform(data.texts, TfidfConfig())
    tree = kmeans(pifa(X, data.Y), KmeansConfig(branching=3, max_leaf=12, max_depth=3), seed=0)
    assert any(mask is not None and mask.any() for mask in tree.copies)
    levels = train_member(Task(X, data.Y), tree, "v", LinearConfig(beam=100), job=Job(), name="t")
    views = {"v": tfidf.views(toy.dataset(1).texts)["tfidf"]}
    above = step(levels[0], views, None, 100)
    below = step(levels[1], views, above, 100)
    for row in range(5):
        parents = dict(zip(above.ids[above.indptr[row] : above.indptr[row + 1]].tolist(),
                           above.score[above.indptr[row] : above.indptr[row + 1]].tolist(), strict=True))  # fmt: skip
        for p in range(below.indptr[row], below.indptr[row + 1]):
            node = int(below.ids[p])
            if tree.copies[1][node]:
                assert below.score[p] == np.float32(parents[int(tree.parents[1][node])])
    assert (
        same(descend(levels, views, 9), step(levels[-1], views, step(levels[-2], views, above, 100), 9))
        or len(levels) > 3
    )


def test_one_label_and_texts_without_features_work():
    one = sparse.csr_matrix(np.ones((1, 1), np.float32))
    tree = LabelTree((np.zeros(1, np.int32),))
    levels = train_member(Task(one, one), tree, "v", LinearConfig(), job=Job(), name="t")
    assert descend(levels, {"v": one}, 5).ids.tolist() == [0]
    nothing = sparse.csr_matrix((3, 4), dtype=np.float32)  # documents without features
    Y = sparse.csr_matrix(np.eye(3, 5, dtype=np.float32))
    tree = LabelTree((np.zeros(2, np.int32), np.array([0, 0, 1, 1, 1], np.int32)))
    found = descend(train_member(Task(nothing, Y), tree, "v", LinearConfig(), job=Job(), name="t"), {"v": nothing}, 5)
    assert set(found.ids.tolist()) <= {0, 1, 2} and np.isfinite(found.score).all()


def damaged(part, name, value, place):
    arrays = {key: np.array(array) for key, array in part.arrays.items()}
    arrays[name][place] = np.array(value).astype(arrays[name].dtype)
    return dataclasses.replace(part, arrays=arrays)


def test_damaged_weights_are_refused(parts):
    part = levels_of(parts)[-1].rank.to_part()
    for name, value in (("shifts", 1), ("shifts", 70), ("bucket_ptr", 0), ("row_ptr", -1), ("ids", -1), ("flags", 9)):
        with pytest.raises(treetop.core.errors.ModelError):
            Linear.from_part(damaged(part, name, value, len(part.arrays[name]) // 2))


@pytest.mark.parametrize("n_documents", [1, 300])
@pytest.mark.parametrize("storage", ["float32", "int8"])
def test_damaged_rows_never_lead_outside(parts, storage, n_documents):
    """What is not checked at opening is cut to its chunk: a walk ends, and names labels that exist."""
    *upper, last = levels_of(parts, storage=storage)
    part, rng = last.rank.to_part(), np.random.default_rng(0)
    X = parts[1]
    X = X[rng.integers(0, X.shape[0], n_documents)]
    for name, value in (("slots", 255), ("buckets", 2**32 - 1), ("buckets", 0), ("lows", 65535), ("counts", 255)):
        for place in (slice(None), slice(None, None, 3)):
            rank = Linear.from_part(damaged(part, name, value, place))
            found = descend([*upper, dataclasses.replace(last, rank=rank)], {last.view: X}, 5)
            assert len(found) == n_documents and set(found.ids.tolist()) <= set(range(rank.n))


def test_a_feature_named_twice_is_one_vector(parts):
    """Rows that damage gave one name: only the cell's own vector is filled, and no entry behind the last is read."""
    part = levels_of(parts)[-1].rank.to_part()
    chunks = Linear.from_part(damaged(part, "lows", 65535, slice(None))).weights
    X = parts[1]
    rows = Rows(X.indptr.astype(np.uint32), X.indices.astype(np.uint32), X.data)
    numbers, _, table = chunk_sums.prepare(rows, int(chunks.sizes[1]))
    for chunk in range(len(chunks.slot_ptr) - 1):
        lines = chunk_sums.fill_table(chunks, np.uint32(chunk), numbers, table)
        stamp, cells = table[-1] << np.uint64(44), table[: len(table) // 2]
        named = cells[(cells >> np.uint64(44) << np.uint64(44) == stamp) & (cells & chunk_sums.LINE == chunk_sums.LINE)]
        used = set(((named >> np.uint64(16)) & np.uint64((1 << 28) - 1)).tolist())
        assert used and not any(lines[k].any() for k in range(len(lines)) if k not in used)
        assert len(lines) > len(used)  # so that there was something to skip


@pytest.mark.slow
def test_damaged_rows_with_every_index_checked(tmp_path):
    """The tests of damage above, compiled with bounds."""
    call = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-k", "damaged_rows_never", __file__]
    env = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(call, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


def test_resume_gives_the_same_bytes(tmp_path, monkeypatch):
    """Stop after every stage in turn; the resumed run ends in the model of an undisturbed one."""
    data, settings = toy.dataset(), {"tree": {"max_leaf": 5, "branching": 2}, "tfidf": {"min_df": 1}}
    treetop.fit("xr_linear", data, settings=settings, out=tmp_path / "whole")
    wanted = (tmp_path / "whole/manifest.json").read_bytes()
    stage = Job.stage
    for stop in range(1, 6):
        seen = []

        def counted(self, name, make, seen=seen, stop=stop):
            if len(seen) == stop:
                raise KeyboardInterrupt
            seen.append(name)
            return stage(self, name, make)

        out = tmp_path / f"cut{stop}"
        monkeypatch.setattr(Job, "stage", counted)
        with pytest.raises(KeyboardInterrupt):
            treetop.fit("xr_linear", data, settings=settings, out=out)
        monkeypatch.setattr(Job, "stage", stage)
        treetop.fit("xr_linear", data, settings=settings, out=out, resume=True, threads=1)
        assert (out / "manifest.json").read_bytes() == wanted


def test_wrong_settings_are_refused():
    with pytest.raises(ConfigError, match=r"linear.transform: unknown value 'hing3'"):
        treetop.fit("xr_linear", toy.dataset(), settings={"linear": {"transform": "hing3"}})
    with pytest.raises(ConfigError, match="needs texts, but toy has precomputed features"):
        data = toy.dataset()
        X = sparse.random(60, 20, 0.3, format="csr", dtype=np.float32, random_state=0)
        treetop.fit(
            "xr_linear", Dataset(data.texts, data.Y, data.labels, features={"given": X}, name="toy"),
            settings={"label_features": "text", "tree": {"max_leaf": 5}},
        )  # fmt: skip


def test_a_cap_above_all_weights_caps_nothing(parts):
    X = parts[3]
    plain, capped = (levels_of(parts, max_nonzeros=n) for n in (0, 2**61))
    assert same(descend(plain, {"v": X}, 5), descend(capped, {"v": X}, 5))
