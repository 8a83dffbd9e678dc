"""What a model makes of texts before anything is ranked: named views, some thousands of texts at a time."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treetop.core.dataset import Csr, Dataset, Ints, LabelSet
from treetop.core.errors import ConfigError, InputError
from treetop.core.texts import Texts
from treetop.core.types import KNOWN_WORDS, Features, Floats, Level, View
from treetop.kernels.runtime import threads
from treetop.predict.self_pairs import OwnLabels
from treetop.predict.unknown import Telling, unknown_rows

BATCH = 16384  # documents looked at together; linear results do not depend on it


class ReadsTexts:
    """A model's side that reads: features give views, levels say which of them they need."""

    labels: LabelSet
    features: Mapping[str, Features]
    members: Sequence[Sequence[Level]]
    bars_self: bool

    def batches(self, texts: Texts, given: Mapping[str, Csr]) -> Iterator[Mapping[str, View]]:
        """Views of the texts, some thousands of texts at a time; one batch at least."""
        for start, stop in threads.blocks(len(texts), BATCH) or [(0, 0)]:
            yield self.views(texts.span(start, stop), {name: X[start:stop] for name, X in given.items()})

    def views(self, texts: Sequence[str] | Texts, given: Mapping[str, Csr] | None = None) -> Mapping[str, View]:
        """Texts as named matrices, a row each; precomputed ones win, the others are computed when first read."""
        made = self._views(Texts.of(texts), given or {})
        if lacking := [view for view in sorted(self.reads) if view not in made]:
            raise InputError(
                f"texts: the model was trained on precomputed features ('{lacking[0]}'), and texts have none. Give "
                "data that bring such features (`treetop evaluate`, Model.rank_dataset), or train on texts."
            )
        return made

    def _views(self, texts: Texts, given: Mapping[str, Csr]) -> Mapping[str, View]:
        maps: list[Any] = [*([dict(given)] if given else []), *(item.views(texts) for item in self.features.values())]
        if "none" in self.reads:
            maps.append({"none": sparse.csr_matrix((len(texts), 0), dtype=np.float32)})
        return maps[0] if len(maps) == 1 else ChainMap(*maps)

    def _checked_k(self, k: int) -> int:
        if type(k) is not int or k < 1:
            raise ConfigError(f"k: {k!r} is not a number of labels. Allowed: 1 or more.")
        return min(k, len(self.labels))

    def own_labels(self, texts: Texts, ids: Texts | None = None) -> Ints | None:
        """(n_pairs, 2) rows and columns of texts that are labels themselves, if those must not be answered."""
        return self.self_pairs(texts, ids) if self.bars_self else None

    def self_pairs(self, texts: Texts, ids: Texts | None = None) -> Ints:
        """(n_pairs, 2) rows and columns of texts that are labels themselves."""
        return self._own_labels.pairs(texts, ids)

    @cached_property
    def _own_labels(self) -> OwnLabels:
        return OwnLabels.of(self.labels)

    @cached_property
    def _telling(self) -> Telling:
        return Telling.of(self.features, self.reads)

    @cached_property
    def reads(self) -> set[str]:
        """Names of the views that levels read."""
        return {level.view for member in self.members for level in member}

    @property
    def answers_texts(self) -> bool:
        """Whether a text is enough to answer; not where training read precomputed features."""
        return self.reads <= set(self._views(Texts.of([]), {}))

    def unknown(self, texts: Sequence[str] | Texts) -> NDArray[np.bool_]:
        """(n_texts,) which texts have no term the model knows or, where an encoder reads them, no letter or digit."""
        return self._unknown(packed_texts(texts), {})

    def unknown_in(self, dataset: Dataset) -> NDArray[np.bool_]:
        """The same for the rows of a Dataset; precomputed features are unknown where a row is empty."""
        return self._unknown(dataset.texts, dataset.features)

    def known_words(self, texts: Sequence[str] | Texts) -> Floats:
        """(n_texts,) the share of each text's words that the model knows; NaN where there are none or it cannot say."""
        packed = packed_texts(texts)
        sizes = (stop - start for start, stop in threads.blocks(len(packed), BATCH) or [(0, 0)])
        return np.concatenate([known_in(views, n) for n, views in zip(sizes, self.batches(packed, {}), strict=True)])

    def _unknown(self, texts: Texts, given: Mapping[str, Csr]) -> NDArray[np.bool_]:
        starts = range(0, max(len(texts), 1), BATCH)
        batches = zip(starts, self.batches(texts, given), strict=True)
        return np.concatenate(
            [unknown_rows(self._telling, views, texts.span(a, min(a + BATCH, len(texts)))) for a, views in batches]
        )


def known_in(views: Mapping[str, View], n: int) -> Floats:
    """(n,) the share of each text's words that features know; NaN where none can say."""
    found: Floats = views[KNOWN_WORDS] if KNOWN_WORDS in views else np.full(n, np.nan, np.float32)
    return found


def packed_texts(texts: Any) -> Texts:
    """Texts from a list of strings; refuses what is none."""
    if isinstance(texts, bytes | Mapping | set) or not isinstance(texts, Iterable):
        raise InputError(f"texts: expected a string or a list of strings, got {type(texts).__name__}.")
    return Texts.of(texts)
