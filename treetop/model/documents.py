"""The training texts of a model: kept where the user asks for it, and searched (`Model.nearest`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from treetop.core.dataset import RETIRED, Dataset
from treetop.core.errors import ConfigError, InputError
from treetop.core.texts import Texts
from treetop.documents.kept import Documents, NearDocument, nearest
from treetop.predict.unknown import TERMS

if TYPE_CHECKING:
    from treetop.model.model import Model

NONE = (
    "nearest: the model keeps no training texts. Train it with keep_texts=True (`treetop fit --keep-texts`), or add "
    "them with Model.with_documents."
)


class KeepsTexts:
    """A model that may keep the texts it was trained on."""

    documents: Documents | None

    @property
    def _model(self) -> Model:
        return cast("Model", self)

    def nearest(self, text: str, k: int = 5) -> list[NearDocument]:
        """The `k` training texts most like a text, with their labels; of a model that keeps its training texts."""
        if not isinstance(text, str):
            raise InputError(f"text: expected a string, got {type(text).__name__}.")
        if type(k) is not int or k < 1:
            raise ConfigError(f"k: {k!r} is not a number of texts. Allowed: 1 or more.")
        if self.documents is None:
            raise ConfigError(NONE)
        similar = self.documents.similarities(self._model.views([text]))
        return [self._near(self.documents, d, float(similar[d])) for d in nearest(similar, k).tolist()]

    def _near(self, documents: Documents, document: int, similarity: float) -> NearDocument:
        labels = self._model.labels
        ids = tuple(labels.ids[c] for c in documents.columns(document) if labels.status[c] != RETIRED)
        return NearDocument(int(documents.rows[document]), similarity, documents.texts[document], ids)

    def with_documents(self, dataset: Dataset | None) -> Model:
        """The same model with the documents of its training data, which it will find, show and save; None: without.

        They are compared by tf-idf where the model has such features, else by the vectors of its last level.
        """
        model = self._model
        if dataset is None:
            return dataclasses.replace(model, documents=None)
        rows = np.flatnonzero(dataset.documents)
        texts = dataset.texts if len(rows) == len(dataset) else dataset.texts.take(rows)
        if not len(texts.blob):
            raise InputError("keep_texts: the data bring no texts, so there are none to keep.")
        view, Y = self._searched_view(), dataset.align(model.trained.labels).Y
        kept = Documents.of(view, self._blocks(view, texts), texts, rows, Y[rows][:, : model.n_trained])
        return dataclasses.replace(model, documents=kept)

    def _searched_view(self) -> str:
        """The view that documents are compared by."""
        offered = list(self._model.views([]))
        read = [member[-1].view for member in self._model.members if member[-1].view in offered]
        found = [*(view for view in offered if view.rpartition("/")[2] == TERMS), *(v for v in read if v != "none")]
        if not found:
            raise ConfigError(
                f"keep_texts: {self._model.card.recipe} reads nothing of a text, so no texts are near to one. Leave "
                "it out."
            )
        return found[0]

    def _blocks(self, view: str, texts: Texts) -> Iterator[Any]:
        for views in self._model.batches(texts, {}):
            yield views[view]
