"""Labels after training: what `Model` offers of `edit/`. Each method returns a new model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from treetop.core.dataset import Dataset, LabelSet

if TYPE_CHECKING:
    from treetop.model.model import Model


class Relabels:
    """A model whose labels can be added, renamed, merged, retired and restored without training."""

    @property
    def _model(self) -> Model:
        return cast("Model", self)

    def add_labels(
        self, labels: LabelSet | Mapping[str, Any] | None = None, *, examples: Dataset | None = None, who: str = "",
        note: str = "",
    ) -> Model:  # fmt: skip
        """A model that also knows these labels by their texts, {id: text} or {id: {"name": ..., "text": ...}}.

        Nothing is trained. Trees of linear functions learn labels from `examples` instead, which are rows of text and
        labels: only the new labels' functions are trained, and without `labels` all that the model does not know. Like
        the methods below it returns a new model and leaves this one as it is; `save` writes the change beside what was
        trained.
        """
        from treetop import edit

        return edit.add(self._model, labels, edit.By(who, note), examples=examples)

    def learn(self, rows: Dataset, *, who: str = "", note: str = "") -> Model:
        """A model that has also learned these rows of text and labels; trees of linear functions only.

        The labels of the rows are trained further, those the model does not know are added; what it says of all others
        keeps every bit. It is a change like the others: `save` writes it beside what was trained, `undo_labels` takes
        it back.
        """
        from treetop import edit

        return edit.learn(self._model, rows, edit.By(who, note))

    def retire_labels(self, labels: Iterable[str], *, who: str = "", note: str = "") -> Model:
        """Never return these labels (ids or names) again, until they are restored."""
        from treetop import edit

        return edit.retire(self._model, labels, edit.By(who, note))

    def restore_labels(self, labels: Iterable[str], *, who: str = "", note: str = "") -> Model:
        """Return these retired or merged labels again."""
        from treetop import edit

        return edit.restore(self._model, labels, edit.By(who, note))

    def rename_labels(
        self, labels: Mapping[str, Any], *, re_encode: bool = False, who: str = "", note: str = ""
    ) -> Model:
        """Give labels other names, {id: name}, or texts, {id: {"text": ...}}; their scores stay.

        `re_encode` renews the vectors of labels that were added by text.
        """
        from treetop import edit

        return edit.rename(self._model, labels, edit.By(who, note), re_encode=re_encode)

    def merge_labels(self, labels: Mapping[str, str], *, who: str = "", note: str = "") -> Model:
        """Send the scores of labels to others, {label: label it goes into}, where the highest counts."""
        from treetop import edit

        return edit.merge(self._model, labels, edit.By(who, note))

    def undo_labels(self, *, who: str = "", note: str = "") -> Model:
        """Take the last change to the labels back."""
        from treetop import edit

        return edit.undo(self._model, edit.By(who, note))
