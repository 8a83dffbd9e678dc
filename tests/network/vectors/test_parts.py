"""Label vectors made of texts, graph and free vectors: what is stored scores as what was trained; slow twins."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
from toy_network import CPU, batch
from treetop.assemble.label_text_bags import two_heads
from treetop.core.types import LabelTree
from treetop.features.encoder.tokens import Tokens
from treetop.features.words.bag import DOCUMENT, BagConfig, Residual
from treetop.features.words.vectors import WordsConfig, find_vectors
from treetop.features.words.words import Words
from treetop.labels.graph import WalkConfig, node_graph, walk_graph
from treetop.network.build import Blueprint, LabelWords, Learning
from treetop.network.inputs import Encoded
from treetop.network.vectors.parts import LabelTexts, PartsPlan, joined_tokens
from treetop.tensors.packed import TokenRows
from treetop.train.optim import AdamConfig

TREE = LabelTree((np.zeros(5, np.int32), (np.arange(40) * 7 % 5).astype(np.int32)))
GRAPH = walk_graph(toy.dataset().Y, WalkConfig(hops=60, restart=0.5, neighbours=4), seed=0)
LABELS = PartsPlan(dropout=0.3)
ATTENTIVE = PartsPlan(dropout=0.3, graph=GRAPH, join="attention", init="graph")
NODES = PartsPlan(dropout=0.3, graph=node_graph(GRAPH, TREE.parents[1], 5), join="attention", init="text")
FORMS = {
    "decaf": (LABELS, LABELS),
    "eclare": (NODES, ATTENTIVE),
    "first": (PartsPlan(text=False), PartsPlan(graph=GRAPH, join="attention", free=False, block="gelu")),
    "free": (LABELS, PartsPlan(text=False)),
}


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    rng = np.random.default_rng(0)
    file = tmp_path_factory.mktemp("words") / "glove.txt"
    file.write_text("".join(f"{w} {' '.join(f'{x:.3f}' for x in rng.standard_normal(8))}\n" for w in toy.WORDS))
    return find_vectors(WordsConfig(model=str(file)), toy.dataset().texts)


@pytest.fixture
def make(words):
    def task(form, bias=True, shake=0.3, before=None):
        data = toy.dataset()
        net = Words.untrained("decaf", BagConfig(), words, max_length=8, views=(DOCUMENT,), seed=0)
        tokens = net.tokenizer.encode(data.texts)
        inputs = Encoded(net.encoder, TokenRows(tokens.ids, tokens.offsets, CPU), (DOCUMENT,))
        plans = two_heads(DOCUMENT.name, DOCUMENT.name, 8, TREE.sizes, 2, *FORMS[form], dropouts=(0.3, 0.3))
        learning = Learning(encoder=AdamConfig(), heads=AdamConfig(), bias=bias)
        labels = LabelWords(net.tokenizer, tokens, net.encoder, before)
        made = Blueprint(plans, TREE, learning, words=labels).network(data, inputs, seed=0)
        with torch.no_grad():
            for weight in made.modules["composers"][0].parameters():
                weight.add_(shake * torch.randn(weight.shape))
        for module, _ in made.modules.values():
            module.eval()
        return made

    return task


def document_views(task, rows):
    return task.inputs.views(task.inputs.load(rows))["document"]


@pytest.mark.parametrize("form", FORMS)
def test_vectors_of_all_labels_teach_what_those_of_the_met_ones_do(form, make):
    found = []
    for every in (False, True):
        torch.manual_seed(3)
        task, rows = make(form), np.arange(10)
        labels = task.heads[1].vectors
        labels.every = every
        h = document_views(task, rows)
        ids = torch.tensor([[3, 7, 39, -1], [7, 0, 21, 22]]).repeat(5, 1)
        for _ in range(2):  # a label met in the first step alone must not move in the second
            scores = labels.logits(h, ids)
            (scores * (ids >= 0)).square().sum().backward(retain_graph=True)
            if labels.table is not None:
                labels.table.prepare(1.0, fuse=False, value=False)
                labels.table.apply()
            ids = ids[1:2].expand(10, -1)
        learned = [w.grad for m, _ in task.modules.values() for w in m.parameters() if w.grad is not None]
        found.append([scores.detach(), *learned, *([] if labels.table is None else labels.table.state().values())])
    assert len(found[0]) == len(found[1]) > 2
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.float(), b.float(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_ranks_score_as_the_trained_network(form, bias, make):
    task, rows = make(form, bias), np.arange(10)
    with torch.no_grad():
        h = document_views(task, rows)
        ids = torch.tensor([[3, 7, 39, -1]]).expand(10, -1)
        clusters, labels = task.heads[0].vectors.logits(h, None), task.heads[1].vectors.logits(h, ids)
    first, second = task.ranks()
    np.testing.assert_allclose(clusters, h.numpy() @ first.weight.T + first.bias, atol=1e-4)
    expected = h.numpy() @ second.weight.T + second.bias
    np.testing.assert_allclose(labels[:, :3], expected[:, [3, 7, 39]], atol=1e-4)
    assert np.isfinite(second.bias).all()  # a label that never occurs is known by its text
    assert bias or not second.bias.any()


@pytest.mark.parametrize("form", FORMS)
def test_every_weight_learns(form, make):
    task = make(form)
    table = task.heads[1].vectors.table
    before = None if table is None else table.weight.clone()
    task.loss(task.load(batch(range(1)), False)).backward()
    for name, weight in task.modules["composers"][0].named_parameters():
        assert weight.grad is not None and weight.grad.abs().sum() > 0, name
    assert task.inputs.encoder.words.grad.abs().sum() > 0
    if before is not None:
        table.prepare(1.0, fuse=True, value=False)
        table.apply()
        moved = (table.weight != before).any(1)
        assert moved.any() and not moved.all()  # only candidates


# --- slow twins ---


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x.detach().numpy()))


def normal(layer):
    """A matrix divided by the singular value that power iteration sees, here to the end."""
    W = layer.weight.detach().numpy().astype(np.float64)
    u = layer.u.numpy().astype(np.float64)
    v = W.T @ u / np.linalg.norm(W.T @ u)
    u = W @ v / np.linalg.norm(W @ v)
    return W / (u @ W @ v)


def words_of(task, label):
    """The tf-idf sum of a label's word vectors, word by word."""
    texts, encoder = task.heads[1].vectors.texts, task.inputs.encoder
    rows = texts.rows
    own = rows.ids[rows.starts[label] : rows.starts[label] + rows.lengths[label]].long().numpy()
    share = texts.rarity.numpy()[own]
    return (encoder.words.detach().numpy()[own] * (share / np.linalg.norm(share))[:, None]).sum(0)


def block(composer, k, v):
    R = composer.blocks[k]
    bent = np.maximum(v, 0)
    if R.kind == "gelu":
        bent = torch.nn.functional.gelu(torch.from_numpy(v)).numpy()
    carry = 1.0 if R.carry is None else R.carry.item()
    return carry * v + R.scale.item() * (normal(R.inner) @ bent + R.inner.bias.detach().numpy())


def test_parts_are_joined_number_by_number(make):
    task = make("decaf")
    labels = task.heads[1].vectors
    text, free = labels.composer.join.gates
    u = block(labels.composer, 0, words_of(task, 4))
    expected = sigmoid(free) * labels.table.weight[4, :-1].numpy() + sigmoid(text) * u
    np.testing.assert_allclose(task.ranks()[1].weight[4], expected, atol=1e-5)


@pytest.mark.parametrize("form", ["eclare", "first"])
def test_labels_weigh_text_graph_and_free_vector(form, make):
    task = make(form)
    labels, dense = task.heads[1].vectors, GRAPH.toarray()
    composer, vectors = labels.composer, task.ranks()[1].weight
    for label in (0, 4, 17, 39):
        z = [words_of(task, label), sum(dense[label, m] * words_of(task, m) for m in range(40))]
        parts = [block(composer, k, v) for k, v in enumerate(z)]
        parts += [labels.table.weight[label, :-1].numpy()] if form == "eclare" else []
        look, weigh = composer.join.look, composer.join.weigh
        seen = [normal(look) @ np.maximum(part, 0) + look.bias.detach().numpy() for part in parts]
        margin = normal(weigh) @ np.concatenate(seen) + weigh.bias.detach().numpy()
        share = np.exp(margin) / np.exp(margin).sum()
        expected = sum(s * part for s, part in zip(share, parts, strict=True))
        np.testing.assert_allclose(vectors[label], expected, atol=1e-4)


def test_power_iteration_finds_the_spectral_norm():
    torch.manual_seed(0)
    layer = Residual(12, 0.0).inner
    with torch.no_grad():
        layer.weight.add_(torch.randn(12, 12))
    layer.train()
    for _ in range(200):
        made = layer.normal()
    expected = layer.weight.detach().numpy() / np.linalg.norm(layer.weight.detach().numpy(), 2)
    np.testing.assert_allclose(made.detach(), expected, atol=1e-4)


def test_free_vectors_start_where_the_plan_says(make):
    task = make("eclare", shake=0.0)
    z = GRAPH.toarray() @ np.stack([words_of(task, m) for m in range(40)])
    free = task.heads[1].vectors.table.weight[:, :-1]
    np.testing.assert_allclose(free, z + np.maximum(z, 0), atol=1e-5)  # blocks start as identity


def test_blocks_go_on_where_an_earlier_training_ended(make):
    first = make("eclare").heads[1].vectors
    again = make("eclare", shake=0.0, before=first.blocks()).heads[1].vectors
    assert again.blocks().keys() == first.blocks().keys()
    for key, value in first.blocks().items():
        np.testing.assert_array_equal(again.blocks()[key], value)
    np.testing.assert_allclose(again.table.weight[:, :-1], first.part("graph"), atol=1e-6)  # free vectors start there


# --- texts and graphs ---


def test_sums_over_the_graph_are_those_of_single_labels():
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 50, rng.integers(0, 6)).astype(np.uint16) for _ in range(40)]
    tokens = Tokens(np.concatenate(texts), np.concatenate([[0], np.cumsum([len(text) for text in texts])]))
    G = sparse.random(40, 40, 0.05, random_state=0, format="csr", dtype=np.float32)
    words = torch.randn(51, 6, dtype=torch.float32, requires_grad=True)
    made = LabelTexts(tokens, torch.rand(51) + 0.5, G)
    own, around = made.sums(words, np.arange(40))
    np.testing.assert_allclose(around.detach(), G.toarray() @ own.detach().numpy(), atol=1e-5)
    for some in (np.array([3, 17, 39]), rng.permutation(40)):  # a penalty may draw all labels, in any order
        for whole, part in zip((own, around), made.sums(words, some), strict=True):
            np.testing.assert_allclose(part.detach(), whole.detach()[some], atol=1e-6)
    around.square().sum().backward()
    assert torch.isfinite(words.grad).all() and words.grad.abs().sum() > 0


def test_labels_in_any_order_leave_the_whole_as_it_is():
    tokens = Tokens(np.arange(10, dtype=np.uint16), np.arange(11))
    made, words, order = LabelTexts(tokens, torch.ones(10), None), torch.randn(10, 3), np.arange(10)[::-1].copy()
    np.testing.assert_array_equal(made.sums(words, order)[0], words[order])
    np.testing.assert_array_equal(made.sums(words, np.arange(10))[0], words)
    np.testing.assert_array_equal(made.sums(words, order)[0], words[order])


def test_clusters_have_the_words_of_their_labels():
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 50, rng.integers(0, 6)).astype(np.uint16) for _ in range(40)]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
    made = joined_tokens(Tokens(np.concatenate(texts), offsets), TREE.parents[1], 6)
    assert len(made) == 6 and made.lengths[5] == 0
    for cluster in range(6):
        expected = [word for label, text in enumerate(texts) if TREE.parents[1][label] == cluster for word in text]
        assert made.ids[made.offsets[cluster] : made.offsets[cluster + 1]].tolist() == expected
