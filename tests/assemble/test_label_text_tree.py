"""DECAF's classifier: what is stored scores as what was trained, and clusters read all their labels' words."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
from treetop.assemble.inputs import Encoded
from treetop.assemble.label_text_tree import LabelTextTree, joined_tokens
from treetop.assemble.neural_tree import TreeConfig
from treetop.core.types import LabelTree
from treetop.features.bag import DOCUMENT, BagConfig
from treetop.features.tokens import Tokens
from treetop.features.vectors import WordsConfig, find_vectors
from treetop.features.words import Words
from treetop.train.batches import TokenRows
from treetop.train.optim import AdamConfig

TREE = LabelTree((np.zeros(5, np.int32), (np.arange(40) * 7 % 5).astype(np.int32)))


@pytest.fixture
def task(tmp_path):
    rng = np.random.default_rng(0)
    file = tmp_path / "glove.txt"
    file.write_text("".join(f"{w} {' '.join(f'{x:.3f}' for x in rng.standard_normal(8))}\n" for w in toy.WORDS))
    data = toy.dataset()
    words = Words.begin(
        "decaf", BagConfig(), find_vectors(WordsConfig(encoder=str(file)), data.texts), max_length=8,
        views=(DOCUMENT,), seed=0,
    )  # fmt: skip
    tokens = words.tokenizer.encode(data.texts)
    inputs = Encoded(words.encoder, TokenRows(tokens.ids, tokens.offsets, torch.device("cpu")), (DOCUMENT,))
    learning = TreeConfig(AdamConfig(), AdamConfig())
    made = LabelTextTree(inputs, data, TREE, words.tokenizer, learning, keep=2, dropout=0.3, seed=0)
    with torch.no_grad():
        for weight in made.sides.parameters():
            weight.add_(0.3 * torch.randn(weight.shape))
    for module, _ in made.modules.values():
        module.eval()
    return made


def test_stored_heads_score_as_the_trained_task(task):
    rows = np.arange(10)
    with torch.no_grad():
        h = task.inputs.views(*task.inputs.load(rows))["document"]
        ids = torch.tensor([[3, 0, 39, -1]]).expand(10, -1)
        clusters, labels = task._cluster_scores(h), task._label_scores(h, ids)
    first, second = task.heads()
    np.testing.assert_allclose(clusters, h.numpy() @ first.weight.T + first.bias, atol=1e-4)
    expected = h.numpy() @ second.weight.T + second.bias
    np.testing.assert_allclose(labels[:, :3], expected[:, [3, 0, 39]], atol=1e-4)
    assert np.isfinite(second.bias).all()  # a label that never occurs is known by its text


def test_label_vectors_are_mixed_number_by_number(task):
    side, encoder = task._side(1), task.inputs.encoder
    sigmoid = lambda x: 1.0 / (1.0 + np.exp(-x.detach().numpy()))  # noqa: E731
    start, end = task.label_rows.starts[4], task.label_rows.starts[4] + task.label_rows.lengths[4]
    own = task.label_rows.ids[start:end].long().numpy()
    share = encoder.rarity.numpy()[own]
    v = (encoder.words.detach().numpy()[own] * (share / np.linalg.norm(share))[:, None]).sum(0)
    R = side.block.inner
    u = v + side.block.scale.item() * (R.normal().detach().numpy() @ np.maximum(v, 0) + R.bias.detach().numpy())
    expected = sigmoid(side.free) * task.table.weight[4, :-1].numpy() + sigmoid(side.text) * u
    np.testing.assert_allclose(task.heads()[1].weight[4], expected, atol=1e-5)


def test_clusters_have_the_words_of_their_labels():
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 50, rng.integers(0, 6)).astype(np.uint16) for _ in range(40)]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])])
    made = joined_tokens(Tokens(np.concatenate(texts), offsets), TREE.parents[1], 6)
    assert len(made) == 6 and made.lengths[5] == 0
    for cluster in range(6):
        expected = [word for label, text in enumerate(texts) if TREE.parents[1][label] == cluster for word in text]
        assert made.ids[made.offsets[cluster] : made.offsets[cluster + 1]].tolist() == expected
