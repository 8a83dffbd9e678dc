"""A model as a folder for other runtimes: the graph, labels, what turns texts into its inputs, and a description.

Nothing is put in place before ONNX Runtime has answered the model's golden inputs as the model does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from treetop.core import golden, target
from treetop.core.errors import ConfigError, ModelError, WorkError, extra
from treetop.core.graph import OPSET, Graph
from treetop.core.log import logger
from treetop.core.texts import Texts
from treetop.core.version import VERSION
from treetop.export.blend import blended
from treetop.export.fuse import fused, probabilities
from treetop.export.inputs import TextInput
from treetop.export.views import ViewMaker
from treetop.export.walk import Kept, walk
from treetop.model import Label, Model
from treetop.predict.blend import KEEP
from treetop.predict.fuse.fuse import DEPTH

GRAPH, FACTS, LABELS = "model.onnx", "export.json", "labels.jsonl"
CLOSE = 1e-4  # by which scores of the graph may differ from the model's


def export_onnx(model: Model, out: Path, *, overwrite: bool = False) -> None:
    """Write the folder; a model that has no ONNX form is refused by name."""
    out = target.without_dots(out)
    _check_target(out, overwrite=overwrite)
    _check_model(model)
    extra("onnxruntime", "onnx")
    with target.replacing(out) as fresh:
        try:
            inputs = _write_graph(model, fresh / GRAPH)
        except ConfigError as error:
            raise ConfigError(f"export: recipe '{model.card.recipe}' has no ONNX form: {error}") from None
        for given in inputs:
            for name, raw in given.files().items():
                (fresh / name).write_bytes(raw)
        (fresh / LABELS).write_text(_label_lines(model), encoding="utf-8")
        facts = _facts(model, inputs)
        (fresh / FACTS).write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        _check_answers(model, Exported(fresh / GRAPH, inputs))


class Exported:
    """An exported graph in ONNX Runtime, fed by the model's own tokenizers and tf-idf."""

    def __init__(self, file: Path, inputs: Sequence[TextInput]) -> None:
        runtime = extra("onnxruntime", "onnx")
        options = runtime.SessionOptions()
        options.log_severity_level = 3  # errors
        self.inputs = inputs
        self._session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def run(self, texts: Sequence[str], k: int) -> dict[str, Any]:
        """Output name -> (texts, k)."""
        given: dict[str, Any] = {"k": np.array([k], np.int64)}
        for item in self.inputs:
            given |= item.arrays(Texts.of(texts))
        names = [output.name for output in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, given), strict=True))

    def predict(self, texts: Sequence[str], k: int, model: Model) -> list[list[Label]]:
        """As `Model.predict`, with the names of a model's labels."""
        found, ids, names = self.run(texts, k), model.labels.ids, model.labels.names
        sure = found.get("probabilities")
        return [
            [
                Label(ids[c], names[c], float(found["scores"][i, j]), None if sure is None else float(sure[i, j]))
                for j, c in enumerate(row.tolist())
                if c >= 0
            ]
            for i, row in enumerate(found["labels"])
        ]


def _check_target(out: Path, *, overwrite: bool) -> None:
    """Refuse a place that is taken; `overwrite` replaces an earlier export, never anything else."""
    target.check_outside(out)
    if not (out.exists() or out.is_symlink()):
        return
    if not overwrite:
        raise WorkError(f"{out}: exists already. Choose another folder, or replace an export with --overwrite.")
    if out.is_symlink() or not (out / FACTS).is_file():
        raise WorkError(f"{out}: is not an export, and only exports are replaced. Choose another folder or remove it.")


def _check_model(model: Model) -> None:
    if not model.answers_texts or not model.golden:
        raise ConfigError(
            "export: the model has no golden inputs to check a graph by, as it was trained on precomputed features. "
            "Train on texts."
        )
    if model.overlay is not None:
        raise ConfigError(
            "export: labels of this model were added, retired or merged after training, which a graph does not know. "
            "Train again with the labels as they are now."
        )


def _write_graph(model: Model, file: Path) -> list[TextInput]:
    """The graph of a model; returns what it reads."""
    graph = Graph()
    k, maker = graph.input("k", np.int64, [1]), ViewMaker(graph)
    views = maker.views(model.features)
    if model.fusion is not None:
        members = [walk(graph, member, views, graph.ints(DEPTH)) for member in model.members]
        kept = fused(graph, model.fusion, members, model.weights, model.counts, k)
    elif len(model.members) == 1:
        kept = walk(graph, model.members[0], views, k)
    else:
        wide = graph.op("Max", k, graph.ints(KEEP))
        members = [walk(graph, member, views, wide) for member in model.members]
        kept = blended(graph, members, model.blend, k, model.weights)
    _write_outputs(graph, model, kept)
    graph.save(file)
    return maker.inputs


def _write_outputs(graph: Graph, model: Model, kept: Kept) -> None:
    shape: list[str | int] = ["texts", "labels"]
    there = graph.op("Greater", kept.score, graph.number(-np.inf))
    graph.output("labels", graph.op("Where", there, kept.ids, graph.constant(-1, np.int64)), np.int64, shape)
    graph.output("scores", kept.score, np.float32, shape)
    if model.calibration is not None:
        value = kept.score if model.fusion is None else kept.own
        sure = probabilities(graph, model.calibration, kept, value, model.counts)
        graph.output("probabilities", graph.op("Where", there, sure, graph.number(0.0)), np.float32, shape)


def _label_lines(model: Model) -> str:
    rows = zip(model.labels.ids, model.labels.names, strict=True)
    return "".join(json.dumps({"id": id_, "name": name}, ensure_ascii=False) + "\n" for id_, name in rows)


def _facts(model: Model, inputs: Sequence[TextInput]) -> dict[str, Any]:
    outputs = {
        "labels": "(texts, k) line numbers of the labels file from 0, best first; -1 where there are fewer",
        "scores": "(texts, k) higher is better; -inf beside -1",
    }
    if model.calibration is not None:
        outputs["probabilities"] = "(texts, k) that the label is right"
    return {
        "format": 1,
        "treetop": VERSION,
        "recipe": model.card.recipe,
        "model": model.seal,
        "graph": GRAPH,
        "opset": OPSET,
        "labels": {"file": LABELS, "count": len(model.labels)},
        "inputs": {"k": "(1,) labels to return for each text", "texts": [given.facts() for given in inputs]},
        "outputs": outputs,
    }


def _check_answers(model: Model, exported: Exported) -> None:
    """Refuse a graph that does not answer the golden inputs as the model does."""
    texts = [str(row["text"]) for row in model.golden]
    if model.bars_self:
        logger.warning("export: the graph reads no texts, so it may answer one that is a label itself with this label")
        model = replace(model, bars_self=False).with_golden(Texts.of(texts))
        texts = [str(row["text"]) for row in model.golden]
    for row, found in zip(model.golden, exported.predict(texts, golden.DEPTH, model), strict=True):
        if not _alike(row["ids"], row["scores"], found):
            raise ModelError(
                f"export: not written, as the graph answers {[label.id for label in found]} to the golden input "
                f"{row['text'][:40]!r}, the model {row['ids']}. Report this with the recipe and its settings."
            )


def _alike(ids: Sequence[str], scores: Sequence[float], found: Sequence[Label]) -> bool:
    """Whether both lists have the same scores; labels may change places only where scores are the same."""
    known = dict(zip(ids, scores, strict=True))
    last = scores[-1] if scores else 0.0  # of labels with this score others may have been cut off
    pairs = [(label.score, known.get(label.id, last)) for label in found]
    pairs += zip([label.score for label in found], scores, strict=False)
    return len(found) == len(ids) and all(abs(a - b) <= CLOSE for a, b in pairs)
