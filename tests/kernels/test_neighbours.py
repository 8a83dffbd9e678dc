import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from treetop.kernels import reference
from treetop.kernels.runtime import threads
from treetop.kernels.search.neighbours import nearest, vote

VALUES = [0.0, 0.0, 0.0, 0.25, 0.5, 1.0, -0.5]  # exact in binary, so that sums and ties are exact


def triple(matrix):
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float32)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(0, 12), st.integers(1, 30), st.integers(1, 8), st.integers(1, 9))
def test_equals_the_slow_twin(seed, n_queries, n_rows, n_features, k):
    random = np.random.default_rng(seed)
    queries = random.choice(VALUES, (n_queries, n_features)).astype(np.float32)
    rows = random.choice(VALUES, (n_rows, n_features)).astype(np.float32)
    Y = (random.random((n_rows, 7)) < 0.3).astype(np.float32)
    best, sims = nearest(triple(sparse.csr_matrix(queries)), triple(sparse.csc_matrix(rows)), n_rows, k)
    slow = reference.nearest(queries, rows, k)
    for q, found in enumerate(slow):
        padded = [*found, *[(-1, 0.0)] * (k - len(found))]
        assert list(zip(best[q].tolist(), sims[q].tolist(), strict=True)) == padded
    indptr, ids, scores = vote(best, sims, 2.0, triple(sparse.csr_matrix(Y)), 7, 4)
    for q, answer in enumerate(reference.vote(slow, 2.0, Y, 4)):
        a, b = indptr[q], indptr[q + 1]
        assert ids[a:b].tolist() == [label for label, _ in answer]
        assert np.allclose(scores[a:b], [score for _, score in answer], atol=1e-6)


def test_same_bits_for_any_thread_count_and_read_only_arrays():
    random = np.random.default_rng(0)
    rows = sparse.random(3000, 200, 0.05, format="csc", dtype=np.float32, random_state=random)
    index = triple(rows)
    for array in index:
        array.flags.writeable = False
    queries = triple(rows[:1500].tocsr())
    results = []
    for n in (1, 2, 5):
        with threads.limited(n):
            results.append(nearest(queries, index, 3000, 50))
    for best, sims in results[1:]:
        assert np.array_equal(best, results[0][0]) and np.array_equal(sims, results[0][1])


def test_votes_of_nothing_list_no_label():
    """Three neighbours whose targets weigh 0 (or NaN): more such votes than labels, and none of them counts."""
    best, similar = np.array([[0, 1, 2]], np.int32), np.ones((1, 3), np.float32)
    targets = (np.array([0, 1, 2, 4]), np.zeros(4, np.int32), np.array([0, np.nan, 0, 0], np.float32))
    indptr, ids, _ = vote(best, similar, 1.0, targets, 1, 5)
    assert indptr.tolist() == [0, 0] and len(ids) == 0
