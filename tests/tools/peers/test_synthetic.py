import numpy as np

from tools.peers.synthetic import Shape, make

SMALL = Shape(
    n_train=3000, n_test=200, n_features=4000, n_labels=5000, features_per_text=40, labels_per_topic=100, topic_pool=60
)


def test_the_set_has_the_asked_shape():
    parts = make(SMALL, seed=1)
    X, Y = parts["X_train"], parts["Y_train"]
    assert X.shape == (3000, 4000) and Y.shape == (3000, 5000)
    assert abs(X.nnz / 3000 - 40) < 3 and abs(Y.nnz / 3000 - SMALL.labels_per_text) < 0.5
    assert X.dtype == np.float32 and X.has_sorted_indices
    np.testing.assert_allclose(np.sqrt(X.multiply(X).sum(1)), 1, rtol=1e-5)
    counts = np.sort(np.bincount(Y.indices, minlength=5000))[::-1]
    assert counts[0] > 8 * counts[counts > 0].mean()  # a head


def test_test_texts_have_only_labels_seen_in_training():
    parts = make(SMALL)
    assert (np.diff(parts["Y_test"].indptr) > 0).all() and parts["X_test"].shape[0] == parts["Y_test"].shape[0] <= 200
    assert set(parts["Y_test"].indices) <= set(parts["Y_train"].indices)


def test_the_seed_decides_everything():
    one, same, other = make(SMALL, seed=3), make(SMALL, seed=3), make(SMALL, seed=4)
    for name, matrix in one.items():
        assert (matrix != same[name]).nnz == 0
    assert one["Y_train"].nnz != other["Y_train"].nnz


def test_numbers_of_labels_tell_nothing():
    by_topic, shuffled = (make(SMALL, shuffled=flag)["Y_train"] for flag in (False, True))
    assert by_topic.nnz == shuffled.nnz
    counts = [np.sort(np.bincount(Y.indices, minlength=5000)) for Y in (by_topic, shuffled)]
    assert np.array_equal(*counts)  # the same labels under other numbers
    spread = [np.median([np.ptp(Y[i].indices) for i in range(500) if Y[i].nnz > 2]) for Y in (by_topic, shuffled)]
    assert spread[0] < 100 and spread[1] > 1500


def test_texts_tell_their_labels():
    """The nearest training text shares a label far more often than another one does."""
    parts = make(SMALL)
    near = np.asarray((parts["X_test"] @ parts["X_train"].T).argmax(1)).ravel()
    shared = parts["Y_test"].multiply(parts["Y_train"][near]).sum(1) > 0
    chance = parts["Y_test"].multiply(parts["Y_train"][(near + 1) % 3000]).sum(1) > 0
    assert shared.mean() > 0.2 > chance.mean() + 0.1
