import dataclasses

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy_encoder
from treetop.core.errors import ModelError
from treetop.core.store import read_part, write_manifest, write_part
from treetop.core.texts import Texts
from treetop.core.types import KNOWN_WORDS
from treetop.features import concatenate
from treetop.features.concatenate import Concatenated, concatenated, view_of
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.features.tfidf.tfidf import Tfidf, TfidfConfig
from treetop.kernels.runtime import threads

TEXTS = Texts.of(["cat dog", "", "a fish and a bird", "qqq", "stone river cloud stone"])


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    torch.set_num_threads(1)
    folder = toy_encoder.write_encoder(tmp_path_factory.mktemp("toy") / "encoder")
    transformer = Transformer.load(TransformerConfig(model=str(folder), max_length=20))
    return Tfidf.fit([text for text in TEXTS if text != "qqq"], TfidfConfig(l2=False)), transformer


def slow(X, H):
    """Row by row, each side divided by its length."""
    made = []
    for x, h in zip(X.toarray().astype(np.float64), H.astype(np.float64), strict=True):
        made.append([*(x / (np.sqrt((x * x).sum()) or 1.0)), *(h / (np.sqrt((h * h).sum()) or 1.0))])
    return np.array(made)


@pytest.mark.parametrize("rows", [1, 2, 4096])
def test_joined_rows_equal_the_slow_way(rows, monkeypatch):
    monkeypatch.setattr(concatenate, "ROWS", rows)
    rng = np.random.default_rng(0)
    X = sparse.random(23, 40, 0.04, format="csr", dtype=np.float32, random_state=1)
    X.sort_indices()
    H = rng.normal(size=(23, 5)).astype(np.float32)
    H[3] = 0
    assert (np.diff(X.indptr) == 0).any()
    made = concatenated(X, H)
    np.testing.assert_allclose(made.toarray(), slow(X, H), atol=1e-6)
    assert made.dtype == np.float32 and made.indices.dtype == np.int32
    assert (np.diff(made.indptr) == np.diff(X.indptr) + 5).all()
    again = sparse.csr_matrix((made.data, made.indices, made.indptr), made.shape)
    assert again.has_canonical_format
    np.testing.assert_allclose(concatenated(None, H).toarray(), slow(X, H)[:, 40:], atol=1e-6)
    with threads.limited(3):
        assert np.array_equal(concatenated(X, H.astype(np.float16)).data, concatenated(X, H.astype(np.float16)).data)
    one = sparse.vstack([concatenated(X[i], H[i : i + 1]) for i in range(23)]).tocsr()
    assert np.array_equal(one.data, made.data) and np.array_equal(one.indices, made.indices)


def test_no_rows_and_no_words():
    nothing = sparse.csr_matrix((0, 3), dtype=np.float32)
    assert concatenated(nothing, np.zeros((0, 2), np.float32)).shape == (0, 5)
    empty = sparse.csr_matrix((2, 3), dtype=np.float32)
    assert concatenated(empty, np.ones((2, 2), np.float32)).nnz == 4


def test_views_are_lazy_and_the_encoder_runs_once(both, monkeypatch):
    tfidf, transformer = both
    runs = []
    real = transformer.vectors
    monkeypatch.setattr(transformer, "vectors", lambda *a, **k: runs.append(1) or real(*a, **k))
    views = Concatenated(tfidf, [transformer]).views(TEXTS)
    assert sorted(views) == ["embedding", "encoder/mean:-1", "fused", KNOWN_WORDS, "tfidf"]
    assert views["tfidf"].shape[0] == len(TEXTS) and not runs
    H = views["encoder/mean:-1"]
    np.testing.assert_allclose(views["fused"].toarray(), slow(views["tfidf"], H), atol=1e-6)
    assert views["embedding"].shape == (len(TEXTS), 32)
    assert runs == [1]


def test_it_survives_a_folder_and_shares_its_words(both, tmp_path):
    tfidf, transformer = both
    other = Transformer.from_part(transformer.to_part())
    other.name = "encoder-1"
    made = Concatenated(tfidf, [transformer, other])
    write_part(tmp_path, made.to_part())
    write_manifest(tmp_path, {})
    again = Concatenated.from_part(read_part(tmp_path))
    a, b = made.views(TEXTS), again.views(TEXTS)
    assert set(a) == set(b) and {view_of("fused", 1), "encoder-1/mean:-1"} <= set(a)
    for name in a:
        x, y = a[name], b[name]
        assert np.array_equal(x.toarray(), y.toarray()) if sparse.issparse(x) else np.array_equal(x, y, equal_nan=True)


def test_a_damaged_one_is_refused(both):
    part = Concatenated(*both[:1], [both[1]]).to_part()
    with pytest.raises(ModelError, match="its part 'tfidf' is missing"):
        Concatenated.from_part(dataclasses.replace(part, parts={"encoder-00": part.parts["encoder-00"]}))
    with pytest.raises(ModelError, match="not a 'features.transformer.1'"):
        Concatenated.from_part(dataclasses.replace(part, parts={**part.parts, "encoder-00": part.parts["tfidf"]}))
    with pytest.raises(ModelError, match="'encoder-01' is missing"):
        Concatenated.from_part(dataclasses.replace(part, config={"encoders": 2}))
