"""Integrated gradients: what each word adds to a function of a text's vector (Sundararajan et al. 2017).

The word vectors of the text grow from those of blanks to their own, and the gradient is summed up on the way; what the
words add then sums to the difference between the text and a text of blanks. The way is cut into twice as many pieces
until the sum holds; every cut goes on with the places of the one before. Tokens that belong to no word ([CLS], [SEP])
stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from treetop.core.abilities import Share, Shares
from treetop.core.dataset import Ints
from treetop.core.types import Floats
from treetop.features.encoder.tokens import Tokens
from treetop.features.pullback import Pullback
from treetop.kernels.runtime import threads
from treetop.tensors import devices
from treetop.tensors.packed import TokenRows

FIRST, MOST = 8, 2048  # pieces of the way: at first, and at most
WORK = 1 << 14  # tokens of all places together, beyond which there are no more
CLOSE = 0.01  # of the difference: how far off a sum may be
FINE = 2e-4  # of all amounts, sizes added: a smaller gap is small enough too
AT_ONCE, TOKENS = 8, 2048  # places, and tokens, that a thread takes: their gradients need memory


class Pieces(NamedTuple):
    """The tokens of one text and the words they belong to."""

    tokens: Tokens
    word: Ints  # (tokens,) the word of each; -1: none
    spans: list[tuple[int, int]]  # (start, end) of each word in characters of the text as given


def integrated(
    encoder: Any, pieces: Pieces, blank: Tensor, pooling: Any, outers: Sequence[Pullback], device: torch.device
) -> list[tuple[Floats, float]]:
    """For each function of the view `pooling` (what each word adds, the value of a text of blanks)."""
    way, n, left = _Way(encoder, pieces, blank, pooling, device), FIRST, list(range(len(outers)))
    slopes: list[dict[int, Any]] = [{} for _ in outers]  # at places of the way, counted in pieces of the finest cut
    amounts, ends = [np.zeros(len(pieces.spans)) for _ in outers], np.zeros((len(outers), 2))
    while left and n <= MOST and (n == FIRST or n * len(pieces.word) <= WORK):
        new = [place for place in range(0, MOST + 1, MOST // n) if place not in slopes[left[0]]]
        found = way.slopes([_alpha(place) for place in new], [outers[i] for i in left])
        if n == FIRST:
            ends = np.array([[values[0], values[-1]] for values, _ in found])
        for i, (_, words) in zip(left, found, strict=True):
            slopes[i] |= dict(zip(new, words, strict=True))
            amounts[i] = sum(w * slopes[i][j * (MOST // n)] for j, w in enumerate(_weights(n)))
        left = [i for i in left if len(pieces.spans) and not _holds(ends[i], amounts[i])]
        n *= 2
    return [(words.astype(np.float32), float(value[0])) for words, value in zip(amounts, ends, strict=True)]


def _alpha(place: int) -> float:
    """Where on the way a place lies, from 0 to 1: dense at both ends (Chebyshev)."""
    return float((1 - np.cos(np.pi * place / MOST)) / 2)


def _weights(n: int) -> Floats:
    """(n + 1,) of the places of a cut into `n` (an even number) pieces: Clenshaw-Curtis quadrature."""
    j, k = np.arange(n + 1), np.arange(1, n // 2 + 1)
    b, c = np.where(k == n // 2, 1.0, 2.0), np.where((j == 0) | (j == n), 0.5, 1.0)
    return c / n * (1 - (np.cos(2 * np.pi * np.outer(j, k) / n) * (b / (4 * k**2 - 1))).sum(1))  # type: ignore[no-any-return]


def words_of(text: str, pieces: Pieces, amounts: Floats) -> list[Share]:
    """What each word adds, as shares of the text."""
    spans = zip(pieces.spans, amounts.tolist(), strict=True)
    return [Share(text[start:end], amount, ((start, end),)) for (start, end), amount in spans]


def shared(text: str, pieces: Pieces, found: Sequence[tuple[Floats, float]]) -> list[Shares]:
    """What `integrated` found, as explanations take it."""
    return [Shares(words_of(text, pieces, amounts), base, exact=False) for amounts, base in found]


def _holds(ends: Any, amounts: Any) -> bool:
    """Whether amounts sum to the difference between the ends."""
    difference = float(ends[1] - ends[0])
    allowed = max(CLOSE * abs(difference), FINE * float(np.abs(amounts).sum()))
    return abs(float(amounts.sum()) - difference) <= allowed


class _Way:
    """From blanks to a text: word vectors between the two, and the view of each."""

    def __init__(self, encoder: Any, pieces: Pieces, blank: Tensor, pooling: Any, device: torch.device) -> None:
        self.encoder, self.pooling, self.device = encoder, pooling, device
        tokens, n = pieces.tokens, len(pieces.tokens.ids)
        self.n_words = len(pieces.spans)
        self.word = torch.from_numpy(pieces.word).to(device)
        self.ids = torch.from_numpy(tokens.ids.astype(np.int64)).to(device)
        self.places = TokenRows(np.arange(n), tokens.offsets, device, tokens.rows)
        with torch.no_grad():
            self.whole = encoder.embedded(self.ids).float()
            self.start = torch.where(self.word[:, None] >= 0, blank.float(), self.whole)
        self.at_once = max(1, min(AT_ONCE, TOKENS // max(1, n)))

    def slopes(self, alphas: Sequence[float], outers: Sequence[Pullback]) -> list[tuple[Any, Any]]:
        """For each function ((places,) values, (places, words) gradient times the way) at some places."""

        def block(start: int, stop: int) -> list[tuple[Any, Any]]:
            with torch.enable_grad():
                return self._slopes(torch.tensor(alphas[start:stop], device=self.device), outers)

        ranges = threads.blocks(len(alphas), self.at_once)
        with devices.one_cpu_thread():
            on_cpu = self.device.type == "cpu"
            parts = threads.run(block, ranges) if on_cpu else [block(start, stop) for start, stop in ranges]
        return [tuple(np.concatenate([part[i][a] for part in parts]) for a in (0, 1)) for i in range(len(outers))]  # type: ignore[misc]

    def _slopes(self, alphas: Tensor, outers: Sequence[Pullback]) -> list[tuple[Any, Any]]:
        H, vectors, place, row = self._view(alphas)
        step, values, found = (self.whole - self.start)[place], H.detach().cpu().numpy(), []
        bins = row * (self.n_words + 1) + self.word[place] % (self.n_words + 1)  # tokens of no word at the end
        for i, outer in enumerate(outers):
            value, G = outer(values)
            grad = torch.from_numpy(np.array(G, np.float32)).to(self.device)
            last = i + 1 == len(outers)
            slope = torch.zeros_like(vectors)
            if H.requires_grad:  # not where a text without words has a fixed view
                (slope,) = torch.autograd.grad(
                    H, vectors, grad, retain_graph=not last, allow_unused=True, materialize_grads=True
                )
            sums = torch.zeros(len(alphas) * (self.n_words + 1), dtype=torch.float64, device=self.device)
            sums.index_add_(0, bins, (slope.double() * step).sum(1))
            found.append((value, sums.view(len(alphas), -1)[:, :-1].cpu().numpy()))
        return found

    def _view(self, alphas: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(view, word vectors, which token of the text each is, which place of the way it belongs to)"""
        packed = self.places.gather(np.zeros(len(alphas), np.int64))
        place = packed.ids
        row = packed.back
        if not packed.shape.windows:
            row = torch.empty_like(packed.back)
            row[packed.back] = torch.arange(len(alphas), device=self.device)
        row = row[packed.sequence]
        vectors = torch.lerp(self.start[place], self.whole[place], alphas[row][:, None])
        vectors = vectors.to(self.encoder.embedded(self.ids[:0]).dtype).requires_grad_()
        views = self.encoder(replace(packed, ids=self.ids[place], vectors=vectors), [self.pooling])
        return views[self.pooling.name].float(), vectors, place, row
