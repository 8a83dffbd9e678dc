"""What a model does with texts that their owner should know: it reads some in part, and some are labels themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from treetop.core.abilities import CutsTexts
from treetop.core.dataset import Dataset
from treetop.core.log import logger
from treetop.core.texts import Texts
from treetop.features.views import TOLD, merged_cuts
from treetop.model.views import packed_texts
from treetop.predict.self_pairs import LEAST

if TYPE_CHECKING:
    from treetop.model.model import Model

UNKNOWN, OWN, CUT = "unknown", "own", "cut "


class Remarks:
    """A model's side that says so."""

    @property
    def _model(self) -> Model:
        return cast("Model", self)

    def remarks(self, texts: Sequence[str] | Texts, ids: Texts | None = None) -> Counter[str]:
        """How many texts are labels themselves and kept from them (`own`) or are cut at 128 tokens (`cut 128`)."""
        model, packed = self._model, packed_texts(texts)
        found: Counter[str] = Counter()
        if (pairs := model.own_labels(packed, ids)) is not None:
            found[OWN] = len(np.unique(pairs[:, 0]))
        nothing = Texts.of([])
        read = [item for item in model.features.values() if not model.reads.isdisjoint(item.views(nothing))]
        for length, rows in merged_cuts(item.cut(packed) for item in read if isinstance(item, CutsTexts)).items():
            found[f"{CUT}{length}"] = int(rows.sum())
        return found

    def log_remarks(self, dataset: Dataset, name: str) -> None:
        """Log the same for the documents of a data set, whose first columns are the model's labels."""
        model = self._model
        for sentence in sentences(self.remarks(dataset.texts, dataset.ids), len(dataset)):
            logger.info("%s: %s", dataset.name, sentence)
        wanted = model.card.data.get("self_pairs") == "keep" or dataset.filter_pairs is not None
        if not model.bars_self and wanted:
            return
        pairs = model.self_pairs(dataset.texts, dataset.ids)
        true = int((np.asarray(dataset.Y[pairs[:, 0], pairs[:, 1]]) > 0).sum()) if len(pairs) else 0
        if model.bars_self and true:
            logger.warning(
                "%s: true labels that are the document itself: %s. They count as misses, as %s never predicts them. "
                "Train with --self-pairs keep to predict them.",
                dataset.name, f"{true:,}", name,
            )  # fmt: skip
        elif not model.bars_self and not true and len(pairs) >= LEAST:
            logger.warning(
                "%s: %s documents are labels themselves, and none carries its own label, but %s may predict it. Train "
                "with --self-pairs bar, or list these pairs in a filter file.",
                dataset.name, f"{len(np.unique(pairs[:, 0])):,}", name,
            )  # fmt: skip


def is_remark(key: str) -> bool:
    """Whether a count is one of those that `sentences` reads."""
    return key in (OWN, UNKNOWN) or key.startswith(CUT)


def sentences(found: Mapping[str, int], n: int) -> list[str]:
    """What a user reads of the remarks on `n` texts."""
    said = []
    if found.get(OWN):
        said.append(f"{found[OWN]:,} of {n:,} texts are labels themselves; they never get their own label")
    for key, count in found.items():
        if key.startswith(CUT) and count > TOLD * n:
            length = key.removeprefix(CUT)
            said.append(
                f"{count:,} of {n:,} texts have {length} tokens or more, of which the model reads only the first "
                f"{length}. To read more of them, train it with a higher max_length or with long_texts=windows"
            )
    if found.get(UNKNOWN):
        said.append(f"{found[UNKNOWN]:,} of {n:,} texts have no word the model knows")
    return said
