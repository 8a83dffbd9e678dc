"""Registry: (question, name) -> "module:object", imported on demand.

Every stage answers a question under short names. Built-in answers are listed in `TABLE`; other packages add theirs
through the entry-point group `treetop` with names like `rank.mine` or `recipe.mine`. Saved models refer to these names,
never to Python paths; a setting whose value is such a name is `Annotated[str, Registered(question)]` (`config.py`).
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treetop.core.errors import ConfigError, ModelError, did_you_mean, missing

if TYPE_CHECKING:
    from treetop.core.store import Part

TABLE: dict[str, dict[str, str]] = {
    "data": {"read": "treetop.data.read:read", "frame": "treetop.data.frame:from_frame"},
    "format": {  # in this order; the first that recognises a file or folder wins, plug-ins before these
        "huggingface": "treetop.data.formats.huggingface:FORMAT",
        "lf": "treetop.data.formats.lf:FORMAT",
        "xc": "treetop.data.formats.xc:NEW",
        "pecos": "treetop.data.formats.pecos:FORMAT",
        "attentionxml": "treetop.data.formats.attentionxml:FORMAT",
        "jsonl": "treetop.data.formats.jsonl:FORMAT",
        "parquet": "treetop.data.formats.table:PARQUET",
        "annif": "treetop.data.formats.annif:FORMAT",
        "xlsx": "treetop.data.formats.spreadsheet:FORMAT",
        "csv": "treetop.data.formats.table:CSV",
        "tsv": "treetop.data.formats.table:TSV",
        "fasttext": "treetop.data.formats.fasttext:FORMAT",
        "xc_old": "treetop.data.formats.xc:OLD",
        "libsvm": "treetop.data.formats.libsvm:FORMAT",
        "fulltext": "treetop.data.formats.fulltext:FORMAT",
    },
    "features": {
        "tfidf": "treetop.features.tfidf.tfidf:Tfidf",
        "transformer": "treetop.features.encoder.transformer:Transformer",
        "fuse": "treetop.features.concatenate:Concatenated",
        "towers": "treetop.features.encoder.towers:Towers",
        "words": "treetop.features.words.words:Words",
        "matches": "treetop.features.lexical.matches:Matches",
        "apart": "treetop.features.namespaced:Namespaced",
    },
    "labels": {
        "pifa": "treetop.labels.pifa:describe",
        "text": "treetop.labels.text:describe",
        "pifa+text": "treetop.labels.combine:describe_concatenated",
        "mixed": "treetop.labels.combine:describe_mixed",
    },
    "partition": {
        "balanced": "treetop.partition.balanced:BalancedConfig",
        "kmeans": "treetop.partition.kmeans:KmeansConfig",
    },
    "shortlist": {
        "everything": "treetop.shortlist.everything:Everything",
        "descend": "treetop.shortlist.descend:Descend",
        "ann": "treetop.shortlist.ivf:Ivf",
        "graph": "treetop.shortlist.hnsw:Hnsw",
    },
    "rank": {
        "popular": "treetop.rank.popular:Popular",
        "neighbours": "treetop.rank.neighbours:Neighbours",
        "dense_neighbours": "treetop.rank.dense_neighbours:DenseNeighbours",
        "lexical": "treetop.rank.lexical:Lexical",
        "forest": "treetop.rank.forest:Forest",
        "embedded": "treetop.rank.embedded:Embedded",
        "linear": "treetop.rank.linear:Linear",
        "head": "treetop.rank.head:Head",
        "attention": "treetop.rank.attention:Attention",
        "dual": "treetop.rank.dual:Dual",
        "fusion": "treetop.rank.fusion:Fusion",
    },
    "fusion": {
        "logistic": "treetop.predict.fuse.logistic:Logistic",
        "boosted": "treetop.predict.fuse.boosted:Boosted",
    },
    "metric": {  # over labels; metrics over rows have resampled intervals and are columns of `kernels/metrics.py`
        "C": "treetop.evaluate.metrics:coverage",
        "macroF1": "treetop.evaluate.metrics:macro_f1",
    },
    "loss": {
        "squared_hinge": "treetop.network.losses.squared_hinge",
        "supcon": "treetop.network.losses.supcon",
        "decoupled": "treetop.network.losses.decoupled",
        "balanced": "treetop.network.losses.balanced",
        "infonce": "treetop.network.losses.infonce",
        "triplet": "treetop.network.losses.triplet",
        "kprob": "treetop.network.losses.kprob",
        "bce": "treetop.network.losses.bce",
        "soft_topk": "treetop.network.losses.soft_topk",
    },
    "recipe": {
        "popular": "treetop.recipes.popular",
        "neighbours": "treetop.recipes.neighbours",
        "sentence_neighbours": "treetop.recipes.sentence_neighbours",
        "lexical": "treetop.recipes.lexical",
        "dismec": "treetop.recipes.dismec",
        "xr_linear": "treetop.recipes.xr_linear",
        "parabel": "treetop.recipes.parabel",
        "bonsai": "treetop.recipes.bonsai",
        "extremetext": "treetop.recipes.extremetext",
        "pfastrexml": "treetop.recipes.pfastrexml",
        "annexml": "treetop.recipes.annexml",
        "lightxml": "treetop.recipes.lightxml",
        "cascadexml": "treetop.recipes.cascadexml",
        "attentionxml": "treetop.recipes.attentionxml",
        "x_transformer": "treetop.recipes.x_transformer",
        "xr_transformer": "treetop.recipes.xr_transformer",
        "xmlcnn": "treetop.recipes.xmlcnn",
        "inceptionxml": "treetop.recipes.inceptionxml",
        "inceptionxml_lf": "treetop.recipes.inceptionxml_lf",
        "astec": "treetop.recipes.astec",
        "decaf": "treetop.recipes.decaf",
        "eclare": "treetop.recipes.eclare",
        "simcse": "treetop.recipes.simcse",
        "graphsage": "treetop.recipes.graphsage",
        "depsl": "treetop.recipes.depsl",
        "unidec": "treetop.recipes.unidec",
        "siamesexml": "treetop.recipes.siamesexml",
        "ngame": "treetop.recipes.ngame",
        "dexml": "treetop.recipes.dexml",
        "renee": "treetop.recipes.renee",
        "blend": "treetop.recipes.blend",
        "auto": "treetop.recipes.auto",
    },
    "augment": {
        "gandalf": "treetop.augment.gandalf",
        "identity": "treetop.augment.identity",
        "random_walk": "treetop.augment.random_walk",
        "glas": "treetop.augment.glas",
        "synonym": "treetop.augment.synonym",
        "mixup": "treetop.augment.mixup",
        "label_mixup": "treetop.augment.label_mixup",
    },
}
EXTRAS = {"torch": "torch", "transformers": "torch", "tokenizers": "torch", "faiss": "ann"}  # package -> extra


@cache
def _plugins(question: str) -> dict[str, str]:
    prefix = question + "."
    return {
        point.name[len(prefix) :]: point.value
        for point in entry_points(group="treetop")
        if point.name.startswith(prefix)
    }


def names(question: str) -> list[str]:
    """Names of all answers to a question, built-in ones first."""
    built_in = TABLE[question]
    return [*built_in, *(name for name in sorted(_plugins(question)) if name not in built_in)]


def _target(question: str, name: str) -> str:
    target = TABLE[question].get(name) or _plugins(question).get(name)
    if target is None:
        known = names(question)
        raise ConfigError(
            f"{question}: unknown name '{name}'. Choose one of {', '.join(known)}.{did_you_mean(name, known)}"
        )
    return target


def source(question: str, name: str) -> str:
    """The source text of the module behind a name, without importing it."""
    spec = importlib.util.find_spec(_target(question, name).partition(":")[0])
    if spec is None or spec.origin is None:
        raise ConfigError(f"{question} '{name}': its module is not installed. Install the plug-in again.")
    return Path(spec.origin).read_text(encoding="utf-8")


def find(question: str, name: str) -> Any:
    """The object behind a name; its module (and torch, if it needs it) is imported only now."""
    module, _, attribute = _target(question, name).partition(":")
    try:
        loaded: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in EXTRAS:
            raise
        raise missing(package, EXTRAS[package], f"{question} '{name}'") from None
    return getattr(loaded, attribute) if attribute else loaded


def restore(part: Part, question: str) -> Any:
    """The component a saved part describes, by its name; a newer version of it is refused."""
    asked, _, rest = part.kind.partition(".")
    name = rest.rpartition(".")[0]
    if asked != question:
        raise ModelError(f"expected a part of kind '{question}', found '{part.kind}'.")
    kind = find(question, name)
    if kind.kind != part.kind:
        raise ModelError(
            f"'{part.kind}' was saved by another version of treetop; this one reads '{kind.kind}'. Train again."
        )
    return kind.from_part(part)
