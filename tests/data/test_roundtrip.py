"""What a format can hold comes back as it was written, for every format and any strings."""

import dataclasses
import string
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.errors import InputError
from treetop.core.texts import Texts
from treetop.core.thesaurus import Thesaurus
from treetop.data.detect import written_formats
from treetop.data.format import CONTENT
from treetop.data.read import read, read_all
from treetop.data.write import contents, losses, write

FORMATS = written_formats()
any_text = st.text(st.characters(codec="utf-8"), max_size=12)
line_text = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\t"), max_size=12).map(
    lambda text: text.replace("__label__", "").replace("/SEP/", "")
)
word = st.text(string.ascii_letters + string.digits + "äß日-_.", min_size=1, max_size=6)
any_id = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
LINES = {"xc", "attentionxml", "pecos", "fasttext", "annif"}
WORDS = {"attentionxml", "fasttext", "libsvm"}


@st.composite
def datasets(draw, name):
    holds = FORMATS[name].holds
    n, n_labels = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    texts = st.just("") if "texts" not in holds else line_text if name in LINES else any_text

    def matrix(low, high, width):
        cells = draw(st.lists(st.integers(0, 3), min_size=n * width, max_size=n * width))
        values = draw(st.lists(st.floats(low, high, width=32), min_size=n * width, max_size=n * width))
        Y = sparse.csr_matrix((np.array(cells).reshape(n, width) == 0).astype(np.float32))
        Y.data[:] = np.array(values, np.float32)[: Y.nnz]
        return Y

    Y = matrix(0.0625, 1, n_labels)
    assume(Y.nnz)  # a file without any label says nothing about its format
    relevance = None
    if "soft" not in holds or draw(st.booleans()):
        Y.data[:] = 1
        if "relevance" in holds and Y.nnz and draw(st.booleans()):
            relevance = Y.copy()
            relevance.data += np.arange(1, Y.nnz + 1, dtype=np.float32)
    if "unused" not in holds:
        full = np.unique(Y.indices)
        Y, n_labels = Y[:, full], len(full)
        relevance = None if relevance is None else relevance[:, full]
    features = {"given": matrix(-9, 9, 6)} if "features" in holds else {}
    return Dataset(
        Texts.of(draw(st.lists(texts, min_size=n, max_size=n))),
        Y,
        draw(label_sets(name, n_labels)),
        ids=Texts.of(draw(st.lists(any_text, min_size=n, max_size=n))) if "ids" in holds else None,
        roles=np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), np.uint8)
        if "roles" in holds
        else None,
        features=features,
        relevance=relevance,
        propensity=(0.6, 2.6) if "propensity" in holds else (0.55, 1.5),
        filter_pairs=np.array([[0, 0], [n - 1, n_labels - 1]]) if "filter" in holds and draw(st.booleans()) else None,
        name="set",
    )


@st.composite
def label_sets(draw, name, n):
    holds = FORMATS[name].holds
    ids = [str(column) for column in range(n)]
    if "label ids" in holds:
        ids = draw(st.lists(word if name in WORDS else any_id, min_size=n, max_size=n, unique=True))
    lines_ = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=5)
    texts = draw(st.lists(lines_ if name in LINES else any_text, min_size=n, max_size=n))
    texts = texts if "label texts" in holds else [""] * n
    names = [text or id_ for text, id_ in zip(texts, ids, strict=True)]
    if "label names" in holds:
        some = draw(st.lists(any_text.filter(len), min_size=n, max_size=n))
        # SKOS reads the name as text where there is no definition
        names = [a if text or name != "annif" else b for a, b, text in zip(some, names, texts, strict=True)]
    status = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)) if "status" in holds else [0] * n
    thesaurus = None
    if "thesaurus" in holds:
        other = draw(st.lists(st.tuples(st.integers(0, n - 1), st.lists(any_text, max_size=2)), max_size=2))
        pairs = st.lists(st.tuples(st.integers(0, n - 1), st.lists(st.sampled_from(ids), max_size=2)), max_size=2)
        thesaurus = Thesaurus.of({id_: i for i, id_ in enumerate(ids)}, other, draw(pairs), draw(pairs))
    return LabelSet(Texts.of(ids), Texts.of(names), Texts.of(texts), np.array(status, np.uint8), thesaurus)


def said(labels):
    """What a thesaurus says of each label, whatever the order of labels."""
    more = [{}] * len(labels) if labels.thesaurus is None else labels.thesaurus.by_label(labels.ids)
    return {
        id_: {key: sorted(values) for key, values in lists.items()} for id_, lists in zip(labels.ids, more, strict=True)
    }


def assert_same(got, want):
    assert sorted(got.labels.ids) == sorted(want.labels.ids)
    got = got.align(want.labels)  # formats without a labels file order labels by appearance
    assert got.texts == want.texts
    assert got.Y.shape == want.Y.shape
    for matrix in ("Y", "relevance"):
        a, b = getattr(got, matrix), getattr(want, matrix)
        assert (a is None) == (b is None)
        if a is not None:
            assert np.array_equal(a.toarray(), b.toarray())
    assert (got.ids is None) == (want.ids is None) and (want.ids is None or got.ids == want.ids)
    assert np.array_equal(
        got.roles if got.roles is not None else np.zeros(len(got)),
        want.roles if want.roles is not None else np.zeros(len(got)),
    )
    pairs = [np.zeros((0, 2)) if data.filter_pairs is None else data.filter_pairs for data in (got, want)]
    assert np.array_equal(*pairs)
    assert got.propensity == want.propensity
    assert got.features.keys() == want.features.keys()
    for key in want.features:
        a, b = got.features[key].toarray(), want.features[key].toarray()
        width = min(a.shape[1], b.shape[1])  # libsvm does not know how wide it was
        assert np.array_equal(a[:, :width], b[:, :width]) and not b[:, width:].any()


@pytest.mark.parametrize("name", list(FORMATS))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(data=st.data(), gzip=st.booleans())
def test_round_trip(name, data, gzip):
    want = data.draw(datasets(name))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        write({"train": want, "test": want}, out, name, gzip=gzip)
        for split, got in read_all(out).items():
            assert split in ("train", "test")
            assert_same(got, want)
        got = read(out, "test")
        assert_same(got, want)
        labels = got.labels
        known = want.labels if "label names" in FORMATS[name].holds or "label texts" in FORMATS[name].holds else labels
        order = [known.columns[id_] for id_ in labels.ids]
        assert list(labels.names) == [known.names[j] for j in order]
        assert list(labels.texts) == [known.texts[j] for j in order]
        assert said(labels) == said(known)
        assert labels.status.tolist() == [known.status[j] for j in order]


FULL = Dataset(
    Texts.of(["a cat", "a dog"]),
    sparse.csr_matrix(np.array([[1, 0.5, 0], [0, 1, 0]], np.float32)),
    LabelSet(
        *map(Texts.of, (["c", "d", "e"], ["Cat", "d", "e"], ["a cat", "", ""])),
        np.array([0, 0, 1], np.uint8),
        Thesaurus.of({"c": 0, "d": 1, "e": 2}, [(0, ["puss"])], [(0, ["d"])]),
    ),
    ids=Texts.of(["1", "2"]),
    roles=np.array([0, 2], np.uint8),
    features=dict.fromkeys(("given", "mine"), sparse.csr_matrix(np.eye(2, dtype=np.float32))),
    relevance=sparse.csr_matrix(np.array([[3, 4, 0], [0, 5, 0]], np.float32)),
    propensity=(0.6, 2.6),
    filter_pairs=np.array([[0, 1]]),
    language="fi",
)


def test_everything_is_told_apart():
    assert contents({"train": FULL}) == CONTENT.keys()


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "jsonl"])
def test_a_writer_names_what_would_be_lost(name, tmp_path):
    lost = losses({"train": FULL}, FORMATS[name], "set")
    with pytest.raises(InputError) as error:
        write(FULL, tmp_path / "set", name)
    assert str(error.value) == (
        f"{tmp_path / 'set'}: format '{name}' cannot hold {', '.join(lost)}. Leave them out with lossy=True (--lossy), "
        "or write jsonl, which holds everything."
    )
    assert list(tmp_path.iterdir()) == []
    write(FULL, tmp_path / "set", name, lossy=True)
    got = read(tmp_path / "set")
    assert len(got) == 2 and (got.Y.toarray()[:, :2] > 0).tolist() == [[True, True], [False, True]]


def test_csv_names_exactly_the_features(tmp_path):
    with pytest.raises(
        InputError, match="cannot hold precomputed features, features under other names than 'given'. Leave"
    ):
        write(FULL, tmp_path / "set", "csv")


@pytest.mark.parametrize("name", sorted(LINES))
def test_line_breaks_are_refused_or_become_blanks(name, tmp_path):
    data = Dataset(Texts.of(["a\nb"]), sparse.csr_matrix(np.ones((1, 1), np.float32)), LabelSet.of(["0"]))
    with pytest.raises(InputError, match="row 0: the text has a line break, which this format cannot hold"):
        write(data, tmp_path / "set", name)
    write(data, tmp_path / "set", name, lossy=True)
    assert read(tmp_path / "set").texts[0] == "a b"


def test_label_ids_with_blanks_are_refused_or_get_an_underscore(tmp_path):
    data = Dataset(Texts.of(["x"]), sparse.csr_matrix(np.ones((1, 1), np.float32)), LabelSet.of(["a b"]))
    with pytest.raises(InputError, match="label 'a b': this format cannot hold ' ' in a label id"):
        write(data, tmp_path / "set", "fasttext")
    write(data, tmp_path / "set", "fasttext", lossy=True)
    assert list(read(tmp_path / "set").labels.ids) == ["a_b"]


def test_chain_of_formats_keeps_the_matrix(tmp_path):
    rng = np.random.default_rng(0)
    X = sparse.random(20, 30, 0.2, "csr", np.float32, rng)
    Y = sparse.csr_matrix((sparse.random(20, 8, 0.3, "csr", np.float32, rng) > 0).astype(np.float32))
    first = Dataset(Texts.of([""] * 20), Y, LabelSet.of([str(j) for j in range(8)]), features={"given": X}, name="set")
    at = first
    for step, name in enumerate(["xc_old", "xc", "pecos", "jsonl", "xc_old"]):
        write(at, tmp_path / str(step), name)
        at = read(tmp_path / str(step))
    assert_same(dataclasses.replace(at, name="set"), first)
