"""Looking inside a model: recall of its shortlists, and what its encoders' first token does on every layer.

The pictures and the table by which the authors of CascadeXML explain why layers differ (figures 2 to 4, table 11),
for any model and data: beside the model another one, or the encoder before it was tuned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from treetop.core.dataset import Csr, Dataset
from treetop.core.errors import ConfigError, InputError
from treetop.core.texts import Texts
from treetop.core.types import Candidates, Level
from treetop.features.concatenate import Concatenated
from treetop.features.encoder.attention import FirstToken, first_token
from treetop.features.encoder.encoder import Encoder
from treetop.features.encoder.sources import find_encoder
from treetop.features.encoder.tokens import Tokenizer
from treetop.features.encoder.towers import Towers
from treetop.features.encoder.transformer import Transformer
from treetop.features.namespaced import Namespaced
from treetop.kernels.pwcca import pwcca
from treetop.model.model import Model
from treetop.predict.beam import step
from treetop.shortlist.descend import Descend

SAMPLE = 1000  # texts that are read for figures of layers


def look_inside(
    model: Model, dataset: Dataset, *, against: str = "", sample: int = SAMPLE, seed: int = 0
) -> dict[str, Any]:
    """Everything as plain values; `against` names an encoder, or a model whose encoder is compared."""
    model = model.trained
    aligned = dataset.align(model.labels)
    rows = np.sort(np.random.default_rng([seed, 6]).permutation(len(aligned))[:sample])
    if len(rows) == 0:
        raise InputError(f"{dataset.name}: holds no texts. Give data with texts.")
    texts = aligned.texts.take(rows)
    found = transformers_of(model.features.values())
    if against and not found:
        raise ConfigError("--against: the model has no encoder whose layers could be compared.")
    read = [(f"{item.name} of the model", first_token(item, texts)) for item in found]
    if against:
        read.append((against, first_token(untuned(against, found[0]), texts)))
    return {
        "texts": len(rows),
        "shortlists": shortlist_recall(model, texts, aligned.Y[rows]),
        "encoders": [_figures(name, one) for name, one in read],
        "between": [
            {"first": a, "second": b, "pwcca": [pwcca(x, y) for x, y in zip(one.states, two.states, strict=False)]}
            for i, (a, one) in enumerate(read)
            for b, two in read[i + 1 :]
        ],
    }


def _figures(name: str, one: FirstToken) -> dict[str, Any]:
    """Per layer; `pwcca` of every layer with every other."""
    between = [[1.0 if i == j else pwcca(x, y) for j, y in enumerate(one.states)] for i, x in enumerate(one.states)]
    return {
        "name": name,
        "entropy": one.entropy.tolist(),
        "relative_entropy": one.relative.tolist(),
        "self_attention": {"average": one.average.tolist(), "maximum": one.maximum.tolist()},
        "pwcca": between,
    }


def transformers_of(features: Iterable[Any]) -> list[Transformer]:
    """The encoders of a model, also those inside other features."""
    found: list[Transformer] = []
    for item in features:
        if isinstance(item, Transformer):
            found.append(item)
        elif isinstance(item, Towers):
            found.append(item.transformer)
        elif isinstance(item, Concatenated):
            found += item.transformers
        elif isinstance(item, Namespaced):
            found += transformers_of(item.held.values())
    return found


def untuned(name: str, like: Transformer) -> Transformer:
    """Another encoder that reads texts as long as this one does."""
    source, tokenizer = find_encoder(name), like.tokenizer
    other = Tokenizer(source.tokenizer, tokenizer.max_length, tokenizer.long, tokenizer.max_windows)
    return Transformer(Encoder(source), other, like.poolings)


def shortlist_recall(model: Model, texts: Texts, Y: Csr) -> list[dict[str, Any]]:
    """For every shortlist of every member: the share of the texts' labels that it holds, in percent (micro)."""
    views, lines = model.views(texts), []
    for number, levels in enumerate(model.members, 1):
        above, truth = None, _ancestors(levels, Y)
        for t, level in enumerate(levels):
            recall, candidates = _held(level.shortlist.candidates(views[level.view], above), truth[t])
            line = {"member": number, "level": t + 1, "nodes": int(truth[t].shape[1])}
            lines.append({**line, "candidates": candidates, "recall": recall})
            above = step(level, views, above, level.beam) if t + 1 < len(levels) else None
    return lines


def _held(found: Candidates, truth: Csr) -> tuple[float, float]:
    """(percent of the true nodes that are candidates, candidates of a text)."""
    if found.indptr is None or found.ids is None:
        return 100.0, float(truth.shape[1])
    owner = np.repeat(np.arange(len(found.indptr) - 1), np.diff(found.indptr))
    held = np.isin(_keys(*_pairs(truth), truth.shape[1]), _keys(owner, found.ids, truth.shape[1]))
    return 100.0 * float(held.sum()) / max(1, truth.nnz), len(found.ids) / max(1, len(found.indptr) - 1)


def _ancestors(levels: Sequence[Level], Y: Csr) -> list[Csr]:
    """(texts, nodes) per level: the nodes under which a text's labels lie; on the last level the labels."""
    truth = [(Y > 0).astype(np.float32).tocsr()]
    for level in reversed(levels[1:]):
        below = level.shortlist
        if not isinstance(below, Descend):
            raise ConfigError("--layers: the levels of this model are not those of a tree.")
        parent = np.empty(below.n, np.int64)
        parent[below.children] = np.repeat(np.arange(below.n_parents), np.diff(below.indptr))
        rows, ids = _pairs(truth[0])
        keys = np.unique(_keys(rows, parent[ids], below.n_parents))
        truth.insert(0, _matrix(keys, Y.shape[0], below.n_parents))
    return truth


def _matrix(keys: Any, rows: int, n: int) -> Csr:
    return sparse.csr_matrix((np.ones(len(keys), np.float32), (keys // n, keys % n)), (rows, n))


def _pairs(matrix: Csr) -> tuple[Any, Any]:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices.astype(np.int64)


def _keys(rows: Any, ids: Any, n: int) -> Any:
    """One number for each (row, id)."""
    return rows.astype(np.int64) * n + ids
