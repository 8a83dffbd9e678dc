"""tf-idf concatenated with encoder embeddings: one sparse row per text, both parts L2-normalised.

Several encoders may share the tf-idf of one model: the views of the second are called `fused-1`, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.abilities import CutsTexts, Gradient, HasFastForm, MovesToDevice, Share, Shares, SharesOut
from treetop.core.dataset import Csr
from treetop.core.errors import ModelError
from treetop.core.part_checks import number, whole
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import KNOWN_WORDS
from treetop.features.encoder.transformer import Transformer
from treetop.features.pullback import linear, normalised
from treetop.features.tfidf.tfidf import Tfidf
from treetop.features.views import Views, merged_cuts
from treetop.kernels.runtime import threads

ROWS = 4096  # rows of the joined matrix per block


def view_of(name: str, m: int) -> str:
    """What a level calls the view `fused` or `embedding` of the m-th encoder."""
    return f"{name}-{m}" if m else name


class Concatenated(SharesOut, MovesToDevice, HasFastForm, CutsTexts):
    """Views of tf-idf and of encoders as they are, and joined: `fused`, or `embedding` without the words.

    An encoder's last pooling is the one that is joined.
    """

    kind: ClassVar[str] = "features.fuse.1"

    def __init__(self, tfidf: Tfidf, transformers: Sequence[Transformer], dense: float = 1.0) -> None:
        """`dense` is the norm of the embedding next to tf-idf of norm 1."""
        self.tfidf, self.transformers, self.dense = tfidf, tuple(transformers), dense

    def views(self, texts: Texts) -> Mapping[str, Any]:
        words = self.tfidf.views(texts)
        makers: dict[str, Any] = {name: lambda name=name: words[name] for name in ("tfidf", KNOWN_WORDS)}
        for m, transformer in enumerate(self.transformers):
            vectors, last = transformer.views(texts), transformer.view_name(transformer.poolings[-1])
            makers |= {name: lambda v=vectors, name=name: v[name] for name in vectors}
            makers[view_of("fused", m)] = lambda v=vectors, name=last: concatenated(words["tfidf"], v[name], self.dense)
            makers[view_of("embedding", m)] = lambda v=vectors, name=last: concatenated(None, v[name])
        return Views(makers)

    def cut(self, texts: Texts) -> Mapping[int, NDArray[np.bool_]]:
        return merged_cuts(transformer.cut(texts) for transformer in self.transformers)

    def shares(self, text: str, view: str, gradients: Sequence[Gradient]) -> list[Shares] | None:
        if view == "tfidf":
            return self.tfidf.shares(text, view, gradients)
        for m, transformer in enumerate(self.transformers):
            if view == view_of("fused", m):
                words = self._words(text, gradients)
                vectors = self._vectors(text, transformer, gradients, self.tfidf.n_features, self.dense)
                return [_added(one, other) for one, other in zip(words, vectors, strict=True)]
            if view == view_of("embedding", m):
                return self._vectors(text, transformer, gradients, 0, 1.0)
            found = transformer.shares(text, view, gradients)
            if found is not None:
                return found
        return None

    def _words(self, text: str, gradients: Sequence[Gradient]) -> list[Shares]:
        """What terms add to functions of the joined row, in which tf-idf has length 1."""
        n, row = self.tfidf.n_features, self.tfidf.transform([text])
        length = float(np.linalg.norm(row.data.astype(np.float64))) or 1.0
        scaled = [Gradient(g.dense(n + self._width)[:n] / np.float32(length), 0.0) for g in gradients]
        return self.tfidf.shares(text, "tfidf", scaled)

    @property
    def _width(self) -> int:
        """Columns of the widest encoder."""
        return max(item.encoder.view_width(item.poolings[-1]) for item in self.transformers)

    def _vectors(
        self, text: str, transformer: Transformer, gradients: Sequence[Gradient], n: int, dense: float
    ) -> list[Shares]:
        """What words add by way of the embedding behind the first `n` columns."""
        pooling = transformer.poolings[-1]
        width = transformer.encoder.view_width(pooling)
        outers = [normalised(linear(np.float32(dense) * g.dense(n + width)[n:])) for g in gradients]
        return transformer.shares_of(text, pooling, outers)

    def to(self, device: torch.device) -> Concatenated:
        """The same with its encoders on another device."""
        moved = [transformer.to(device) for transformer in self.transformers]
        same = all(a is b for a, b in zip(moved, self.transformers, strict=True))
        return self if same else Concatenated(self.tfidf, moved, self.dense)

    def fast(self) -> Concatenated:
        """The same with the encoders' fast forms."""
        return Concatenated(self.tfidf, [transformer.fast() for transformer in self.transformers], self.dense)

    def to_part(self) -> Part:
        encoders = {f"encoder-{m:02d}": item.to_part() for m, item in enumerate(self.transformers)}
        config = {"encoders": len(encoders), "dense": self.dense}
        return Part(self.kind, config, {}, {"tfidf": self.tfidf.to_part(), **encoders})

    @classmethod
    def from_part(cls, part: Part) -> Concatenated:
        names = [f"encoder-{m:02d}" for m in range(whole(part, "encoders", 1, len(part.parts)))]
        for name, kind in (("tfidf", Tfidf.kind), *((name, Transformer.kind) for name in names)):
            if name not in part.parts or part.parts[name].kind != kind:
                raise ModelError(f"{cls.kind}: its part '{name}' is missing or not a '{kind}'. Copy the model again.")
        encoders = [Transformer.from_part(part.parts[name]) for name in names]
        return cls(Tfidf.from_part(part.parts["tfidf"]), encoders, number(part, "dense"))


def concatenated(X: Csr | None, H: NDArray[Any], dense: float = 1.0) -> Csr:
    """Rows [x / |x| ; dense h / |h|] as csr float32; an empty row of X stays empty, and without X there is only H."""
    n, width = H.shape
    n_words = 0 if X is None else X.shape[1]
    starts = np.zeros(n + 1, np.int64) if X is None else X.indptr.astype(np.int64)
    ends = starts + np.arange(n + 1, dtype=np.int64) * width
    indptr = ends.astype(np.int32) if ends[-1] < 1 << 31 else ends
    indices, data = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.float32)
    columns = np.arange(n_words, n_words + width, dtype=np.int32)

    def fill(first: int, stop: int) -> None:
        lengths = np.diff(starts[first : stop + 1])
        here = slice(ends[first], ends[stop])
        into, places = data[here], indices[here]
        spots = ((ends[first + 1 : stop + 1] - ends[first] - width)[:, None] + np.arange(width)).ravel()
        into[spots] = (np.float32(dense) * unit(np.asarray(H[first:stop], np.float32))).ravel()
        places[spots] = np.tile(columns, stop - first)
        if X is None or lengths.sum() == 0:
            return
        words = slice(starts[first], starts[stop])
        rows = np.repeat(np.arange(stop - first), lengths)
        spots = np.arange(len(rows)) + rows * width
        squares = np.bincount(rows, X.data[words].astype(np.float64) ** 2, minlength=stop - first)
        scale = 1.0 / np.sqrt(np.where(squares > 0, squares, 1.0))
        into[spots] = X.data[words] * scale[rows]
        places[spots] = X.indices[words]

    threads.run(fill, threads.blocks(n, ROWS))
    joined = sparse.csr_matrix((data, indices, indptr), (n, n_words + width))
    joined.has_sorted_indices = joined.has_canonical_format = True
    return joined


def unit(H: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows at length 1; a row of zeros stays as it is."""
    length = np.sqrt((H.astype(np.float64) ** 2).sum(1))  # row by row: the same bits in any batch
    return H * (1.0 / np.where(length > 0, length, 1.0))[:, None].astype(np.float32)


def _added(one: Shares, other: Shares) -> Shares:
    """Both together; what stands in the same places becomes one share."""
    found = {share.spans or (share.term,): share for share in one.words}
    for share in other.words:
        if (seen := found.get(share.spans)) is not None:
            found[share.spans] = Share(seen.term, seen.amount + share.amount, share.spans)
        else:
            found[share.spans] = share
    return Shares([*found.values()], one.base + other.base, exact=one.exact and other.exact)
