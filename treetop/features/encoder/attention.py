"""What an encoder's first token does on every layer: its states, how it attends to the tokens and to itself.

Attention maps are made by transformers' plain ("eager") attention, which alone gives them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from treetop.core.errors import ConfigError
from treetop.core.texts import Texts
from treetop.features.encoder.tokens import Tokens
from treetop.features.encoder.transformer import Transformer
from treetop.tensors import devices

BATCH = 32


@dataclass(frozen=True, eq=False)
class FirstToken:
    """Per layer, means over texts; entropies are in nats."""

    states: NDArray[np.float32]  # (layers, texts, width), behind each layer
    entropy: NDArray[np.float64]  # (layers,) of the attention over the tokens, mean over heads
    relative: NDArray[np.float64]  # (layers,) the same as a share of the entropy of even attention
    average: NDArray[np.float64]  # (layers,) attention to itself, mean over heads
    maximum: NDArray[np.float64]  # (layers,) the same of the head with most


def first_token(transformer: Transformer, texts: Texts) -> FirstToken:
    """The figures of these texts; of a text with several windows the first is read."""
    tokens = transformer.tokenizer.encode(texts)
    starts = np.arange(len(tokens)) if tokens.rows is None else tokens.rows[:-1]
    body = copy.deepcopy(transformer.encoder.body).eval()
    try:
        body.set_attn_implementation("eager")
    except (ValueError, AttributeError) as error:
        raise ConfigError(f"--layers: this encoder's attention cannot be read ({error}).") from None
    order = np.argsort(tokens.lengths, kind="stable") if tokens.rows is None else np.arange(len(tokens))
    states = np.empty((transformer.encoder.depth, len(tokens), transformer.encoder.width), np.float32)
    figures = np.empty((4, transformer.encoder.depth, len(tokens)))
    with torch.inference_mode(), devices.one_cpu_thread():
        for begin in range(0, len(order), BATCH):
            rows = order[begin : begin + BATCH]
            ids, mask = _padded(tokens, starts[rows])
            out = body(input_ids=ids, attention_mask=mask, output_attentions=True, output_hidden_states=True)
            if not out.attentions or out.attentions[0] is None:
                raise ConfigError("--layers: this encoder does not give its attention maps.")
            for layer, state in enumerate(out.hidden_states[1:]):  # before the first they are alike
                states[layer, rows] = state[:, 0].numpy()
            for layer, attention in enumerate(out.attentions):
                own = attention[:, :, 0, :].double()  # (texts, heads, tokens)
                figures[0, layer, rows] = entropy = torch.special.entr(own).sum(2).mean(1).numpy()
                figures[1, layer, rows] = entropy / np.log(np.maximum(2, mask.sum(1).numpy()))
                figures[2, layer, rows], figures[3, layer, rows] = own[:, :, 0].mean(1), own[:, :, 0].amax(1)
    return FirstToken(states, *figures.mean(2))


def _padded(tokens: Tokens, sequences: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids, mask) of sequences, filled up to the longest."""
    lengths = np.diff(tokens.offsets)[sequences]
    ids = np.zeros((len(sequences), int(lengths.max())), np.int64)
    for row, (start, length) in enumerate(zip(tokens.offsets[sequences], lengths, strict=True)):
        ids[row, :length] = tokens.ids[start : start + length]
    mask = np.arange(ids.shape[1]) < lengths[:, None]
    return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))
