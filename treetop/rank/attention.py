"""Label attention over a token sequence: each label weighs the words of a text by a vector of its own.

What a label reads goes through layers that all labels share and, where labels have them, weights of their own
(`tensors/label_attention.py`). A label that was never seen in training has a bias of -inf and is not returned.
Explanations share a margin out over the words by their attention weights. How it is learned:
`network/vectors/attention.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treetop.core.abilities import Gradient, HasGradient, HasLabelVectors, RanksOnDevice
from treetop.core.dataset import Ints
from treetop.core.errors import ModelError
from treetop.core.part_checks import floats, whole
from treetop.core.store import Part
from treetop.core.types import Candidates, Floats, Join, Ranking, Shortlist, View
from treetop.kernels.runtime import threads
from treetop.kernels.search.topk import best_of, largest
from treetop.tensors import devices
from treetop.tensors.label_attention import LabelVectors, attention, scored
from treetop.tensors.sequences import SequenceRows, Sequences

VALUES = 1 << 24  # numbers that labels have read of texts, held at a time
MOST_LAYERS = 16


class Attention(RanksOnDevice, HasGradient, HasLabelVectors):
    """(n, width) attention vectors with shared layers; `own` (n, width) weights of their own, or None."""

    kind: ClassVar[str] = "rank.attention.1"
    reads: ClassVar[str] = "attention"

    def __init__(
        self, vectors: Floats, own: Floats | None, bias: Floats, layers: Sequence[tuple[Floats, Floats]]
    ) -> None:
        self.vectors, self.own, self.bias, self.layers = vectors, own, bias, list(layers)
        self.n, self.width = len(vectors), int(vectors.shape[1])
        self._moved: LabelVectors | None = None  # all labels on a device, after `to`

    def rank(self, view: View, candidates: Candidates, join: Join, keep: int) -> Ranking:
        if not isinstance(view, SequenceRows) or view.width != self.width:
            raise ModelError(
                f"{self.kind}: reads token sequences of width {self.width}, got a view of {view.shape[1]} columns "
                f"({type(view).__name__}). The model is damaged; copy it again."
            )
        layers, batches = self._layers(view.device), view.batches()

        def block(start: int, stop: int) -> list[Ranking]:
            with torch.inference_mode():
                return [self._ranked(view, places, candidates, layers, join, keep) for places in batches[start:stop]]

        if view.device.type == "cpu":
            with devices.one_cpu_thread():
                found = threads.run(block, threads.blocks(len(batches), 1))
        else:
            with devices.full_precision():
                found = [block(0, len(batches))]
        rankings = [ranking for part in found for ranking in part]
        return _in_order(Ranking.concat(rankings), batches)

    def _ranked(
        self, view: SequenceRows, places: Ints, candidates: Candidates, layers: Any, join: Join, keep: int
    ) -> Ranking:
        """The rows at some places, in their order."""
        texts = view.sequences(places)
        if candidates.ids is None or candidates.indptr is None:
            margins = self._margins(texts, None, layers)
            ids = np.tile(np.arange(self.n, dtype=np.int32), len(places))
            ends, entries = np.arange(len(places) + 1) * self.n, None
        else:
            counts = candidates.indptr[places + 1] - candidates.indptr[places]
            ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
            entries = np.repeat(candidates.indptr[places] - ends[:-1], counts) + np.arange(ends[-1])
            ids = candidates.ids[entries]
            margins = self._margins(texts, _padded(ids, ends), layers)
        own = join.own(margins)
        parents = {
            name: None if value is None or entries is None else value[entries]
            for name, value in (("parent_own", candidates.parent_own), ("parent_score", candidates.parent_score))
        }
        score = join.score(own, Candidates(len(places), self.n, None, ids, **parents))
        kept = margins > -np.inf
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[ends]
        longest = int(np.diff(indptr).max(initial=0))
        return Ranking(*best_of(indptr, ids[kept], score[kept], own[kept], min(keep, longest)))

    def _margins(self, texts: Sequences, ids: NDArray[np.int64] | None, layers: Any) -> Floats:
        """Margins of all labels, or of (rows, labels) ids without their padding (-1), row by row."""
        columns = self.n if ids is None else ids.shape[1]
        found = np.empty((len(texts), columns), np.float32)
        step = max(1, VALUES // max(1, len(texts) * self.width))
        for start in range(0, columns, step):
            stop = min(columns, start + step)
            labels = self._labels(slice(start, stop) if ids is None else ids[:, start:stop], texts.states.device)
            read = torch.matmul(attention(texts, labels.attention), texts.states)
            found[:, start:stop] = scored(read, labels, layers).cpu().numpy()
        return found.ravel() if ids is None else found[ids >= 0]

    def _labels(self, ids: Any, device: torch.device) -> LabelVectors:
        if self._moved is not None and device.type != "cpu":
            places = ids if isinstance(ids, slice) else torch.from_numpy(ids).to(device)
            return LabelVectors(*(None if part is None else part[places] for part in self._moved))  # type: ignore[arg-type]
        return self._on(ids, device)

    def _on(self, ids: Any, device: torch.device) -> LabelVectors:
        """Vectors, weights and biases of some labels on a device."""
        parts = (None if part is None else torch.from_numpy(np.array(part[ids])) for part in self._arrays)
        return LabelVectors(*(None if part is None else part.to(device) for part in parts))  # type: ignore[arg-type]

    @property
    def _arrays(self) -> tuple[Floats, Floats | None, Floats]:
        return self.vectors, self.own, self.bias

    def _layers(self, device: torch.device) -> list[tuple[Tensor, Tensor]]:
        return [(_tensor(weight, device), _tensor(bias, device)) for weight, bias in self.layers]

    def to(self, device: Any) -> Self:
        moved = copy.copy(self)
        moved._moved = None if device.type == "cpu" else self._on(slice(None), device)
        return moved

    def on_device(
        self, view: View, shortlist: Shortlist, above: Ranking | None, join: Join, keep: int
    ) -> Ranking | None:
        """None: candidates are listed on the host, `rank` scores them where the view lies."""
        return None

    def gradient(self, view: View, node: int) -> Gradient:
        """A weight for each token: its attention times what the text adds to the margin of a text without words."""
        texts, device = view.sequences(np.zeros(1, np.int64)), view.device
        with torch.inference_mode():
            labels, layers = self._on(np.array([node]), device), self._layers(device)
            weights = attention(texts, labels.attention)
            read = torch.matmul(weights, texts.states)
            margin, base = (float(scored(m, labels, layers)[0, 0]) for m in (read, torch.zeros_like(read)))
        return Gradient((weights[0, 0].cpu().numpy() * np.float32(margin - base)).astype(np.float32), base, tokens=True)

    def vector(self, node: int) -> Floats:
        found: Floats = self.vectors[node] if self.own is None else self.own[node]
        return found

    def similar(self, vector: Floats, keep: int) -> tuple[Ints, Floats]:
        table = self.vectors if self.own is None else self.own
        length = np.linalg.norm(table, axis=1) * np.float32(np.linalg.norm(vector))
        usable = (length > 0) & (self.bias > -np.inf)
        cosine = np.where(usable, table @ vector / np.maximum(length, 1e-37), -1).astype(np.float32)
        best = largest(cosine, np.arange(self.n), keep)
        return best, cosine[best]

    def to_part(self) -> Part:
        arrays = {"vectors": self.vectors, "bias": self.bias}
        arrays |= {} if self.own is None else {"own": self.own}
        for i, (weight, bias) in enumerate(self.layers):
            arrays |= {f"layer-{i:02d}": weight, f"layer-{i:02d}-bias": bias}
        return Part(self.kind, {"n": self.n, "layers": len(self.layers)}, arrays)

    @classmethod
    def from_part(cls, part: Part) -> Attention:
        n = part.setting("n", int)
        vectors = floats(part, "vectors", n, None)
        own = floats(part, "own", n, vectors.shape[1]) if "own" in part.arrays else None
        layers, width, count = [], int(vectors.shape[1]), whole(part, "layers", 1, MOST_LAYERS)
        for i in range(count):
            weight = floats(part, f"layer-{i:02d}", 1 if i + 1 == count else None, width)
            layers.append((weight, floats(part, f"layer-{i:02d}-bias", len(weight))))
            width = len(weight)
        return cls(vectors, own, floats(part, "bias", n), layers)


def _tensor(array: Floats, device: torch.device) -> Tensor:
    return torch.from_numpy(np.array(array)).to(device)


def _padded(ids: NDArray[np.int32], ends: Ints) -> NDArray[np.int64]:
    """(rows, most candidates of a row) ids, -1 behind those of rows with fewer."""
    counts = np.diff(ends)
    table = np.full((len(counts), int(counts.max(initial=0))), -1, np.int64)
    table[np.arange(table.shape[1]) < counts[:, None]] = ids
    return table


def _in_order(ranking: Ranking, batches: Sequence[Ints]) -> Ranking:
    """A ranking of the rows of some batches as one of rows 0, 1, 2, ..."""
    if not batches:
        return ranking
    order = np.argsort(np.concatenate(batches), kind="stable")
    counts = np.diff(ranking.indptr)[order]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    entries = np.repeat(ranking.indptr[order] - indptr[:-1], counts) + np.arange(indptr[-1])
    return Ranking(indptr, ranking.ids[entries], ranking.score[entries], ranking.own[entries])
