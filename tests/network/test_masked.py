"""Hidden words: which are chosen, and the loss against plain torch."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from torch.nn import functional as F

from treetop.core.texts import Texts
from treetop.features.encoder.encoder import Encoder, Pooling
from treetop.features.encoder.sources import find_encoder
from treetop.features.encoder.tokens import Tokenizer
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.network.inputs import Encoded
from treetop.network.masked import MaskedWords, WordHead
from treetop.tensors.packed import TokenRows
from treetop.train.batches import Batch
from treetop.train.optim import AdamConfig

CPU = torch.device("cpu")


def tokens_of(encoder, texts, length=24):
    return Tokenizer(find_encoder(encoder).tokenizer, length).encode(Texts.of(texts))


def test_hidden_words_are_chosen_as_bert_does(encoder):
    """The share, who is shown what, and that special tokens are never guessed."""
    tokens = tokens_of(encoder, ["cat dogs horse bird fish tree stone river cloud engine wheel lamp"] * 40)
    transformer = Transformer.load(TransformerConfig(model=encoder, max_length=24))
    special, mask = transformer.tokenizer.special, transformer.tokenizer.mask
    inputs = Encoded(transformer.encoder, TokenRows(tokens.ids, tokens.offsets, CPU), transformer.poolings)
    task = MaskedWords(inputs, share=0.4, mask=mask, special=special, encoder=AdamConfig(), head=AdamConfig())
    ids = torch.from_numpy(tokens.ids.astype(np.int64))
    torch.manual_seed(0)
    place, shown, real = task.chosen(ids)
    assert len(place) == round(0.4 * len(ids)) == len(torch.unique(place)) and real.all()
    assert not set(ids[place].tolist()) & set(special.tolist())
    hidden, same = (shown == mask).float().mean(), (shown == ids[place]).float().mean()
    assert abs(hidden - 0.8) < 0.05 and abs(same - 0.1) < 0.05
    alone = torch.tensor([2, 5, 3])  # of three tokens one may be guessed
    place, shown, real = MaskedWords(
        inputs, share=0.5, mask=mask, special=special, encoder=AdamConfig(), head=AdamConfig()
    ).chosen(alone)
    assert real.sum() == 1 and place[real].tolist() == [1]


def test_the_loss_of_hidden_words_adds_up_over_micro_batches(encoder, monkeypatch):
    """It is the sum over the chosen tokens by a plain head, divided by their expected number."""
    texts = ["cat dogs and horses", "a river", "salt and bread and wine", "paper"]
    tokens = tokens_of(encoder, texts)
    body = Encoder(find_encoder(encoder), dropout=0.0, attention_dropout=0.0)
    inputs = Encoded(body, TokenRows(tokens.ids, tokens.offsets, CPU), [Pooling("mean", (-1,))])
    task = MaskedWords(inputs, share=0.3, mask=4, special=np.array([2, 3]), encoder=AdamConfig(), head=AdamConfig())
    place = torch.tensor([1, 2])  # of each text, in the order in which it is packed
    monkeypatch.setattr(
        MaskedWords, "chosen", lambda self, ids: (place, torch.tensor([4, 4]), torch.tensor([True, False]))
    )
    rows = np.arange(4)
    with torch.no_grad():
        total = sum(float(task.loss(task.load(Batch(rows[i : i + 1], rows[i : i + 1], 4, 0), False))) for i in rows)
    slow, embeddings = 0.0, body.body.get_input_embeddings().weight
    for row in rows:
        ids = torch.from_numpy(tokens.ids[tokens.offsets[row] : tokens.offsets[row + 1]].astype(np.int64))
        shown = ids.clone()
        shown[place] = 4
        states = body.body(input_ids=shown[None], attention_mask=torch.ones_like(shown)[None]).last_hidden_state[0]
        hidden = F.layer_norm(F.gelu(states), (body.width,))  # the layer begins as the identity
        slow += float(F.cross_entropy(hidden[1:2] @ embeddings.T, ids[1:2]).detach())
    assert total == pytest.approx(slow / (0.3 * tokens.lengths.mean() * 4), rel=1e-4)


def test_the_head_begins_as_the_norm_of_what_it_reads():
    head, states = WordHead(8, 11), torch.randn(3, 8)
    words = torch.randn(11, 8)
    assert torch.allclose(head(states, words), F.layer_norm(F.gelu(states), (8,)) @ words.T, atol=1e-6)
    assert not head.bias.any()
