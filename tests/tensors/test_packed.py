import numpy as np
import pytest

torch = pytest.importorskip("torch")
from treetop.tensors.packed import TokenRows

CPU = torch.device("cpu")


def test_packed_sequences_are_the_sequences():
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 60000, n) for n in (4, 1, 3, 2, 3)]
    offsets = np.concatenate([[0], np.cumsum([len(t) for t in texts])])
    store = TokenRows(np.concatenate(texts).astype(np.uint16), offsets, CPU)
    rows = np.array([4, 0, 1, 3])
    packed = store.gather(rows)
    assert packed.shape == (4, 4, 10, 4, False)
    _holds(packed, [texts[row] for row in rows])


def _holds(packed, texts):
    for i, text in enumerate(texts):
        s = int(packed.back[i])
        a, b = int(packed.starts[s]), int(packed.starts[s + 1])
        assert packed.ids[a:b].tolist() == text.tolist()
        assert packed.positions[a:b].tolist() == list(range(b - a))
        assert (packed.sequence[a:b] == s).all()


@pytest.mark.parametrize("row", range(3))
def test_a_text_by_itself_is_packed_as_in_a_batch(row):
    texts = [np.array(numbers, np.uint16) for numbers in ([7, 60000, 9], [], [5])]
    store = TokenRows(np.concatenate(texts), np.array([0, 3, 3, 4]), CPU)
    alone, (message, shape) = store.gather(np.array([row])), store.describe(np.array([row]))
    _holds(alone, [texts[row]])
    as_ever = store.packed(torch.from_numpy(message), shape)
    assert alone.shape == shape
    for name in ("ids", "positions", "starts", "sequence", "back"):
        found, wanted = getattr(alone, name), getattr(as_ever, name)
        assert found.dtype == wanted.dtype and torch.equal(found, wanted), name


@pytest.mark.parametrize("windows", [False, True])
def test_static_shapes_hold_the_same_sequences(windows):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 40, 300)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.arange(0, 301, 2) if windows else None
    store = TokenRows(rng.integers(0, 999, offsets[-1]).astype(np.uint16), offsets, CPU, rows)
    shapes = set()
    for _ in range(3):
        chosen = rng.integers(0, 150 if windows else 300, 50)
        plain = store.gather(chosen)
        message, shape = store.describe(chosen, static=True)
        shapes.add(shape)
        packed = store.packed(torch.from_numpy(message), shape)
        n, tokens = plain.shape.sequences, plain.shape.tokens
        assert shape.tokens % 2048 == 0 and shape.sequences > n
        for name, count in (("ids", tokens), ("positions", tokens), ("sequence", tokens), ("starts", n + 1)):
            assert torch.equal(getattr(packed, name)[:count], getattr(plain, name)), name
        assert torch.equal(packed.back[: len(plain.back)], plain.back)
        assert (packed.starts[1:] - packed.starts[:-1])[n:].max() <= 16
        assert int(packed.starts[-1]) == shape.tokens == len(packed.ids)
    assert len(shapes) <= 2


@pytest.mark.parametrize("windows", [False, True])
def test_tokens_of_rows_are_counted_with_all_their_windows(windows):
    rows = np.array([0, 2, 2, 5]) if windows else None
    store = TokenRows(np.arange(15), np.array([0, 3, 3, 4, 9, 15]), CPU, rows)
    asked = np.array([2, 0, 1])
    assert store.counts(asked).tolist() == ([12, 3, 0] if windows else [1, 3, 0])
    assert store.count(asked) == store.counts(asked).sum()
