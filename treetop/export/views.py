"""The views that levels read, as values of a graph: (texts, width), dense."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from treetop.core.errors import ConfigError
from treetop.core.graph import Graph
from treetop.core.types import Features
from treetop.export.inputs import TermInput, TextInput, TokenInput
from treetop.features.namespaced import Namespaced
from treetop.features.tfidf.tfidf import Tfidf
from treetop.features.views import Views

Makers = dict[str, Callable[[], str]]
OF_ENCODERS = ("features.transformer.1", "features.towers.1", "features.fuse.1")


class ViewMaker:
    """Views of a model's features; `inputs` collects what they read once they are asked for."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.inputs: list[TextInput] = []

    def views(self, features: Mapping[str, Features]) -> Mapping[str, str]:
        """View name -> value, added to the graph when first asked for; the first features that have a view make it."""
        makers: Makers = {}
        for item in features.values():
            makers = self.makers(item) | makers
        return Views(makers)

    def makers(self, item: Features) -> Makers:
        """What adds each view of one of the model's features to the graph."""
        if isinstance(item, Tfidf):
            return {"tfidf": partial(self.words, item)}
        if isinstance(item, Namespaced):
            inner = self.views(item.held)
            return {f"{item.name}/{view}": partial(inner.__getitem__, view) for view in inner}
        if item.kind in OF_ENCODERS:
            from treetop.export.encoder_views import makers  # needs torch, as the encoder does

            return makers(self, item)
        return dict.fromkeys(_names(item), partial(_refuse, item.kind))

    def words(self, item: Tfidf) -> str:
        """(texts, terms) tf-idf, read from an input of its own."""
        given = TermInput(self._prefix(TermInput), item)
        self.inputs.append(given)
        return given.on(self.graph)

    def tokens(self, item: Any) -> tuple[str, str]:
        """(ids, mask) of an encoder's texts, inputs of their own."""
        given = TokenInput(self._prefix(TokenInput), item.tokenizer)
        self.inputs.append(given)
        return given.on(self.graph)

    def _prefix(self, kind: type[TextInput]) -> str:
        """Nothing for the first input of a kind, `2-` for the second."""
        n = sum(isinstance(item, kind) for item in self.inputs) + 1
        return "" if n == 1 else f"{n}-"


def _names(item: Features) -> list[str]:
    from treetop.core.texts import Texts

    return list(item.views(Texts.of([])))


def _refuse(kind: str) -> str:
    name = kind.split(".")[1]
    raise ConfigError(
        f"features '{name}' cannot be written as ONNX; those that can are tfidf, transformer, towers and fuse."
    )
