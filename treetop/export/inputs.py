"""What an exported graph reads, and how texts become it: token ids of an encoder, or terms with their weights.

The graph does not read texts. Token ids come from `tokenizer.json`, which every tokenizers library reads; the weights
of terms from tf-idf, whose terms and settings are written beside the graph.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core import config
from treetop.core.errors import ConfigError
from treetop.core.graph import Graph
from treetop.core.texts import Texts
from treetop.features.encoder.tokens import Tokenizer
from treetop.features.tfidf.tfidf import Tfidf

Arrays = dict[str, NDArray[Any]]


class TextInput(ABC):
    """One way in which a graph takes texts; `prefix` tells several of one kind apart."""

    prefix: str

    @abstractmethod
    def arrays(self, texts: Texts) -> Arrays:
        """The graph's inputs for some texts."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What whoever feeds the graph must know."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """Files that go with it."""


@dataclass(frozen=True)
class TokenInput(TextInput):
    """(texts, tokens) ids and mask."""

    prefix: str
    tokenizer: Tokenizer

    def __post_init__(self) -> None:
        if self.tokenizer.long != "truncate":
            raise ConfigError(
                "this model pools its encoder over windows of long texts (encoder.long_texts=windows), "
                "which the graph cannot do. Train with encoder.long_texts=truncate."
            )

    def on(self, graph: Graph) -> tuple[str, str]:
        """(ids, mask) as inputs of a graph."""
        shape: list[str | int] = ["texts", f"{self.prefix}tokens"]
        names = (f"{self.prefix}input_ids", f"{self.prefix}attention_mask")
        return graph.input(names[0], np.int64, shape), graph.input(names[1], np.int64, shape)

    def arrays(self, texts: Texts) -> Arrays:
        tokens = self.tokenizer.encode(texts)
        ids, mask = (
            padded(tokens.offsets, tokens.ids.astype(np.int64)),
            padded(tokens.offsets, np.ones(len(tokens.ids), np.int64)),
        )
        return {f"{self.prefix}input_ids": ids, f"{self.prefix}attention_mask": mask}

    def facts(self) -> dict[str, Any]:
        return {
            "kind": "tokens",
            "inputs": [f"{self.prefix}input_ids", f"{self.prefix}attention_mask"],
            "tokenizer": f"{self.prefix}tokenizer.json",
            "max_length": self.tokenizer.max_length,
            "how": "Token ids of each text, special tokens included, cut at max_length and filled up with 0 where the "
            "mask is 0.",
        }  # fmt: skip

    def files(self) -> dict[str, bytes]:
        return {f"{self.prefix}tokenizer.json": self.tokenizer.raw}


@dataclass(frozen=True)
class TermInput(TextInput):
    """(texts, terms) columns and tf-idf values; a value of 0 fills up."""

    prefix: str
    tfidf: Tfidf

    def on(self, graph: Graph) -> str:
        """(texts, features) dense, from the inputs of a graph."""
        shape: list[str | int] = ["texts", f"{self.prefix}terms"]
        columns = graph.input(f"{self.prefix}indices", np.int64, shape)
        values = graph.input(f"{self.prefix}values", np.float32, shape)
        size = graph.op("Concat", graph.size(columns, 0), graph.ints(self.tfidf.n_features), axis=0)
        empty = graph.op("Expand", graph.number(0.0), size)
        return graph.op("ScatterElements", empty, columns, values, axis=1, reduction="add")

    def arrays(self, texts: Texts) -> Arrays:
        rows = self.tfidf.transform(texts)
        indptr = rows.indptr.astype(np.int64)
        columns, values = padded(indptr, rows.indices.astype(np.int64)), padded(indptr, rows.data)
        return {f"{self.prefix}indices": columns, f"{self.prefix}values": values}

    def facts(self) -> dict[str, Any]:
        return {
            "kind": "tfidf",
            "inputs": [f"{self.prefix}indices", f"{self.prefix}values"],
            "terms": f"{self.prefix}terms.jsonl",
            "settings": config.to_dict(self.tfidf.config),
            "how": "The columns of the terms of each text and their tf-idf values; fill up with column 0 and value 0. "
            "Line i of the terms file is column i.",
        }  # fmt: skip

    def files(self) -> dict[str, bytes]:
        lines = []
        for name, group in self.tfidf.groups.items():
            for term, idf in zip(group.terms, group.idf.tolist(), strict=True):
                lines.append(json.dumps({"term": term, "of": name, "idf": idf}, ensure_ascii=False))
        return {f"{self.prefix}terms.jsonl": ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")}


def padded(ends: NDArray[np.integer], values: NDArray[Any]) -> NDArray[Any]:
    """(rows, longest) ragged rows filled up with zeros; one column at least."""
    lengths = np.diff(ends)
    table = np.zeros((len(lengths), max(1, int(lengths.max(initial=0)))), values.dtype)
    table[np.arange(table.shape[1]) < lengths[:, None]] = values
    return table
