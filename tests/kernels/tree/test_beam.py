import itertools

import numba
import numpy as np
import pytest
from scipy import sparse

from treetop.kernels import reference
from treetop.kernels.sparse import Rows, rows_of
from treetop.kernels.tree import beam, chunk_sums, chunks, scores
from treetop.rank.linear import Linear

RULES = {"noop": (scores.NOOP, 0), "sigmoid": (scores.SIGMOID, 0), "hinge": (scores.HINGE, 1)}


def rule_of(transform, combine, by_own=False):
    name = transform.removeprefix("log_")
    kind, power = (scores.HINGE, int(name[-1])) if name.startswith("hinge") else RULES[name]
    return scores.Rule(kind, power, transform.startswith("log_"), ("own", "parent", "path").index(combine), by_own)


def packed(W, bias, parents, flags=None, storage="float32"):
    """Chunks of dense weights (features, n), read-only as those of a model."""
    n_features, n = W.shape
    flags = np.zeros(n, np.uint8) if flags is None else flags
    n_chunks = int(parents.max()) + 1
    slot_ptr = np.zeros(n_chunks + 1, np.int64)
    np.cumsum(np.bincount(parents, minlength=n_chunks), out=slot_ptr[1:])
    ids = np.argsort(parents, kind="stable").astype(np.int32)
    scratch = np.zeros(n_features, np.uint32), np.zeros(n_features // 64 + 1, np.uint64)
    pieces = []
    for chunk in range(n_chunks):
        columns = [np.flatnonzero(W[:, i]) for i in ids[slot_ptr[chunk] : slot_ptr[chunk + 1]]]
        values = [W[c, i] for c, i in zip(columns, ids[slot_ptr[chunk] :], strict=False)]
        pieces.append(
            chunks.piece(
                (
                    np.array([len(c) for c in columns], np.uint32),
                    np.concatenate([*columns, []]).astype(np.uint32),
                    np.concatenate([*values, []]).astype(np.float32),
                ),
                scratch,
                n_features,
                int(np.diff(slot_ptr).max()),
            )
        )
        assert not scratch[0].any()
        assert not scratch[1].any()
    made = chunks.pack((slot_ptr, ids), bias[ids].astype(np.float32), flags[ids], pieces, n_features)
    return chunks.sealed(chunks.stored_as(made, storage))


def tree_of(rng, sizes, n_features, density=0.3):
    levels, above = [], 1
    for n in sizes:
        W = rng.normal(size=(n_features, n)).astype(np.float32) * (rng.random((n_features, n)) < density)
        parents = np.sort(np.concatenate([np.arange(min(above, n)), rng.integers(0, above, max(0, n - above))]))
        levels.append((W, rng.normal(size=n).astype(np.float32), rng.permutation(parents), np.zeros(n, np.uint8)))
        above = n
    return levels


def go(levels, X, keeps, transform, combine, *, by_own=False, batch=True, storage="float32"):
    rows, made = rows_of(X), beam.root(X.shape[0])
    prepared = chunk_sums.prepare(rows, chunks.name_bits(X.shape[1])) if batch else chunk_sums.NO_BATCH
    for depth, ((W, bias, parents, flags), keep) in enumerate(zip(levels, keeps, strict=True)):
        rule = rule_of(transform, combine if depth else "own", by_own)
        made = beam.rank_level(packed(W, bias, parents, flags, storage), rows, made, rule, keep, prepared)
    indptr, ids, score, own = made
    return [
        list(zip(ids[a:b].tolist(), score[a:b].tolist(), own[a:b].tolist(), strict=True))
        for a, b in itertools.pairwise(indptr.tolist())
    ]


def close(found, wanted):
    assert [len(row) for row in found] == [len(row) for row in wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose([s for _, s, _ in mine], [s for _, s, _ in theirs], rtol=2e-4, atol=1e-5)
        own = {i: o for i, _, o in theirs}
        for id_, _, o in mine:
            if id_ in own:
                assert o == pytest.approx(own[id_], rel=2e-4, abs=1e-5)
        assert [s for _, s, _ in mine] == sorted((s for _, s, _ in mine), reverse=True)


def texts(rng, n, n_features, density=0.4):
    X = sparse.random(n, n_features, density, "csr", np.float32, rng=rng)
    return sparse.vstack([X, sparse.csr_matrix((1, n_features), dtype=np.float32)], format="csr")  # one is empty


@pytest.mark.parametrize("combine", ["path", "parent", "own"])
@pytest.mark.parametrize("transform", ["sigmoid", "log_sigmoid", "hinge1", "hinge3", "hinge4", "log_hinge2"])
def test_walk_equals_the_slow_one(transform, combine):
    rng = np.random.default_rng(len(transform) + len(combine))
    levels, X = tree_of(rng, [5, 30, 200], 40), texts(rng, 25, 40)
    wanted = reference.walk(levels, X.toarray(), [3, 6, 12], transform, combine)
    close(go(levels, X, [3, 6, 12], transform, combine), wanted)


def test_raw_margins_and_wide_chunks():
    rng = np.random.default_rng(0)
    levels, X = tree_of(rng, [700], 30, 0.1), texts(rng, 12, 30)
    close(go(levels, X, [9], "noop", "own"), reference.walk(levels, X.toarray(), [9], "noop", "own"))
    everything = go(levels, X, [1000], "noop", "own")
    assert {len(row) for row in everything} == {700}


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_bits_do_not_depend_on_the_batch(storage):
    rng = np.random.default_rng(1)
    levels, X = tree_of(rng, [4, 40, 150], 60, 0.5), texts(rng, 30, 60)
    keeps = [2, 5, 10]
    whole = go(levels, X, keeps, "hinge3", "path", storage=storage)
    assert whole == go(levels, X, keeps, "hinge3", "path", batch=False, storage=storage)
    alone = [go(levels, X[i], keeps, "hinge3", "path", batch=False, storage=storage)[0] for i in range(X.shape[0])]
    assert whole == alone


def test_stored_weights_are_near():
    rng = np.random.default_rng(2)
    (W, bias, parents, flags), X = tree_of(rng, [50], 40)[0], texts(rng, 10, 40)
    for storage, off in (("float16", 2e-3), ("int8", 3e-2)):
        made = go([(W, bias, parents, flags)], X, [50], "noop", "own", storage=storage)
        for row, x in zip(made, X.toarray(), strict=True):
            for id_, score, _ in row:
                assert score == pytest.approx(float(x @ W[:, id_] + bias[id_]), abs=off * 5)
    bits, _ = chunks.half_bits(np.array([1.0, -2.5, 6e-8, 0.0, 1e9, -1e-4], np.float32))
    assert bits.view(np.float16).astype(np.float32)[[0, 1, 3]].tolist() == [1.0, -2.5, 0.0]


def test_ties_go_to_the_lower_id_and_flags_hold():
    n = 40
    W, bias, parents = np.zeros((3, n), np.float32), np.zeros(n, np.float32), np.zeros(n, np.int64)
    X = sparse.csr_matrix(np.ones((2, 3), np.float32))
    assert [i for i, _, _ in go([(W, bias, parents, np.zeros(n, np.uint8))], X, [5], "hinge3", "own")[0]] == [*range(5)]
    flags = np.zeros(n, np.uint8)
    flags[:3] = chunks.ABSENT
    bias[7] = 2.0
    found = go([(W, bias, parents, flags)], X, [4], "hinge3", "own")[0]
    assert [i for i, _, _ in found] == [7, 3, 4, 5]
    top = (np.zeros((3, 2), np.float32), np.array([0.5, 0.2], np.float32), np.zeros(2, np.int64), np.zeros(2, np.uint8))
    below_flags = np.array([chunks.COPY, 0, 0], np.uint8)
    below = (np.zeros((3, 3), np.float32), np.full(3, 0.1, np.float32), np.array([0, 1, 1]), below_flags)
    first = go([top], X, [2], "sigmoid", "path")[0]
    both = go([top, below], X, [2, 3], "sigmoid", "path")[0]
    assert both[0] == first[0]  # the copy carries both scores of its parent
    close([both], [reference.walk([top, below], X.toarray(), [2, 3], "sigmoid", "path")[0]])


def test_underflow_keeps_candidates():
    W = np.zeros((2, 6), np.float32)
    bias = np.full(6, -50.0, np.float32)
    X = sparse.csr_matrix(np.ones((1, 2), np.float32))
    found = go([(W, bias, np.zeros(6, np.int64), np.zeros(6, np.uint8))], X, [4], "hinge3", "own")[0]
    assert [(i, s) for i, s, _ in found] == [(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0)]


def test_kept_by_own_score_and_ordered_by_the_combined_one():
    rng = np.random.default_rng(4)
    levels, X = tree_of(rng, [6, 60], 20), texts(rng, 8, 20)
    found = go(levels, X, [4, 60], "sigmoid", "path", by_own=True)
    few = go(levels, X, [4, 7], "sigmoid", "path", by_own=True)
    for everything, best in zip(found, few, strict=True):
        wanted = sorted(everything, key=lambda item: (-item[2], item[0]))[:7]
        assert best == sorted(wanted, key=lambda item: (-item[1], item[0]))


def test_named_candidates_give_the_same_scores():
    rng = np.random.default_rng(5)
    W, bias, _, _ = tree_of(rng, [60], 20)[0]
    parents = np.arange(60) % 7
    X, made = rows_of(texts(rng, 5, 20)), packed(W, bias, parents)
    ids = rng.permutation(60)[:30].astype(np.int32)
    indptr = np.array([0, 10, 10, 20, 30, 30, 30])
    owner, place = parents.astype(np.uint32), np.empty(60, np.uint32)
    place[made.ids] = np.arange(60)
    half = np.full(30, 0.5, np.float32)
    rule = rule_of("sigmoid", "path")
    found = beam.rank_given(made, X, (indptr, ids, half, half, owner, place), rule, 4)
    all_pairs = np.arange(7), np.zeros(6)
    above = (np.arange(0, 43, 7), np.tile(all_pairs[0], 6).astype(np.int32), np.full(42, 0.5, np.float32))
    everything = beam.rank_level(made, X, (*above, above[2]), rule, 60, chunk_sums.NO_BATCH)
    for d in range(6):
        known = dict(zip(everything[1][d * 60 : d * 60 + 60], everything[2][d * 60 : d * 60 + 60], strict=True))
        a, b = found[0][d], found[0][d + 1]
        wanted = sorted(ids[indptr[d] : indptr[d + 1]].tolist(), key=lambda i: (-known[i], i))[:4]
        assert found[1][a:b].tolist() == wanted
        assert found[2][a:b].tolist() == [known[i] for i in wanted]


def test_models_are_read_only_so_that_one_compiled_version_serves_all():
    """A version takes seconds to compile: a model just trained must not need another than one mapped from disk."""
    W, bias, parents, _ = tree_of(np.random.default_rng(6), [20], 10)[0]
    made = packed(W, bias, parents)
    loose = chunks.Chunks(*(array.copy() for array in made))
    assert not any(array.flags.writeable for array in made) and all(array.flags.writeable for array in loose)
    trained = Linear(loose, 10)
    part = trained.to_part()
    for weights in (trained.weights, Linear.from_part(part).weights):
        assert numba.typeof(weights) == numba.typeof(made)
        assert all(np.array_equal(a, b) for a, b in zip(weights, made, strict=True))
    assert all(array.flags.writeable for array in loose)  # whoever made it keeps what it had


def test_empty_batch_and_no_candidates():
    rng = np.random.default_rng(7)
    made = packed(*tree_of(rng, [20], 10)[0][:3])
    nothing = Rows(np.zeros(1, np.uint64), np.zeros(0, np.uint32), np.zeros(0, np.float32))
    indptr, ids, _, _ = beam.rank_level(made, nothing, beam.root(0), rule_of("noop", "own"), 2, chunk_sums.NO_BATCH)
    assert indptr.tolist() == [0]
    assert len(ids) == 0
