"""Label vectors that start at label texts: biases make up for the mean text, codes are recognised."""

import dataclasses
import logging

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
import toy_encoder
from toy_network import FLAT, PARENT, TREE, network
from treetop.core.dataset import LabelSet
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.labels.text import label_words
from treetop.network.init import Start, from_texts, ordered_share
from treetop.network.targets import log_odds
from treetop.rank.text_map import unit


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    folder = toy_encoder.write_encoder(tmp_path_factory.mktemp("toy") / "encoder")
    return Transformer.load(TransformerConfig(model=str(folder), max_length=32))


def start_of(data, transformer, how="auto", **more):
    options = {"scale": 10.0, "length": 1.0, "seed": 0, **more}
    return from_texts(data, transformer, init=how, **options).get(transformer.poolings[0].name)


def test_vectors_point_where_the_texts_are(transformer):
    data = toy.dataset()
    start = start_of(data, transformer)
    name = transformer.view_name(transformer.poolings[0])
    T, H = (transformer.views(texts)[name] for texts in (label_words(data.labels), data.texts))
    cosine = unit(H - H.mean(0)) @ unit(T - T.mean(0)).T
    spread = np.linalg.norm(H - H.mean(0), axis=1)
    margins = (H - start.centre) @ start.vectors.T
    np.testing.assert_allclose(margins, 10.0 * cosine * spread[:, None] / spread.mean(), atol=1e-2)
    doubled = start_of(data, transformer, length=2.0)
    np.testing.assert_allclose(doubled.vectors, start.vectors / 2, atol=1e-5)
    np.testing.assert_allclose(doubled.centre, 2 * start.centre, atol=1e-5)


def test_codes_say_nothing_and_are_left_alone(transformer, caplog):
    data = toy.dataset()
    codes = dataclasses.replace(data, labels=LabelSet.of([f"{i * 7919 % 1000:03d}" for i in range(toy.N_LABELS)]))
    with caplog.at_level(logging.INFO, "treetop"):
        assert start_of(codes, transformer) is None
    assert "not used to initialise vectors" in caplog.text
    assert start_of(codes, transformer, "text") is not None
    assert start_of(data, transformer, "zero") is None


def test_share_of_pairs_in_order_is_a_half_by_chance():
    rng = np.random.default_rng(0)
    Y = toy.dataset(n=500).Y
    H, V = (unit(rng.normal(size=(n, 16)).astype(np.float32)) for n in (500, toy.N_LABELS))
    assert ordered_share(H, V, Y, rng) == pytest.approx(0.5, abs=0.05)
    assert ordered_share(unit(np.asarray(Y @ V)), V, Y, rng) > 0.9
    assert ordered_share(H[:0], V, Y[:0], rng) == 0.5


def test_log_odds_count_documents_not_pairs():
    data = toy.dataset()
    dense = data.Y.toarray()
    under = np.stack([dense[:, c == PARENT].any(1) for c in range(4)], 1)
    np.testing.assert_allclose(log_odds(data.Y, PARENT, 4), np.log((under.sum(0) + 0.5) / (len(data) + 1)), rtol=1e-5)


@pytest.mark.parametrize("dimension", [0, 8, 24])
def test_levels_start_where_they_should(dimension):
    rng = np.random.default_rng(0)
    views = rng.normal(size=(60, 16)).astype(np.float32)
    start = Start(rng.normal(size=(toy.N_LABELS, 16)).astype(np.float32), views.mean(0))
    data = toy.dataset()
    flat, _ = network(FLAT, data, views=views, start=start)
    (rank,) = flat.ranks()
    seen = np.isfinite(rank.bias)
    expected = log_odds(data.Y, np.arange(toy.N_LABELS), toy.N_LABELS)
    np.testing.assert_allclose((rank.weight @ start.centre + rank.bias)[seen], expected[seen], atol=1e-4)
    deep, _ = network(TREE, data, views=views, start=start, keep=4, last={"dimension": dimension})
    first, second = deep.ranks()
    np.testing.assert_allclose(first.weight, start.of_nodes(PARENT, 4), rtol=1e-5)
    margins = second.squeezed(views) @ second.weight.T
    if dimension != 8:  # wide enough to hold the view: the same products
        np.testing.assert_allclose(margins, views @ start.vectors.T, atol=1e-3)
    else:
        assert np.corrcoef(margins.ravel(), (views @ start.vectors.T).ravel())[0, 1] > 0.5


def test_vectors_of_a_length_give_the_margins_of_the_model():
    rng = np.random.default_rng(0)
    views = rng.normal(size=(60, 16)).astype(np.float32)
    start = Start(rng.normal(size=(40, 16)).astype(np.float32), views.mean(0))
    task, _ = network(FLAT, toy.dataset(), views=views, start=start, last={"length": 7.0})
    (rank,), (head,) = task.ranks(), task.heads
    h = head.projection.eval()(torch.from_numpy(views))
    assert h.norm(dim=1).numpy() == pytest.approx(7.0)
    margins = (h @ head.one_pass.weight.T + head.one_pass.bias).detach().numpy()
    ours = unit(views) @ rank.weight.T + rank.bias
    seen = np.isfinite(rank.bias)
    np.testing.assert_allclose(ours[:, seen], margins[:, seen], atol=1e-3)
