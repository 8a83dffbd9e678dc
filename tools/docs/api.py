"""`docs/api.md`: the public functions and classes with their signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

NOTE = "<!-- made by `make docs`; edit the docstrings instead -->"
INTRO = """Signatures and docstrings of what is public; [From Python](python.md) shows them at work. Everything else in
the package may change. Errors are subclasses of `treetop.core.errors.TreetopError`, and of `ValueError` and such."""
WIDTH = 100  # of a signature on one line
FUNCTIONS = ("fit", "load", "blend", "adapt", "cluster")
MODEL = (
    "predict", "rank", "evaluate", "explain", "nearest", "unknown", "known_words", "probabilities", "views", "save",
    "to", "fast", "add_labels", "learn", "rename_labels", "merge_labels", "retire_labels", "restore_labels",
    "undo_labels", "with_documents",
)  # fmt: skip
DATASET = ("read", "from_frame", "take", "align")
ESTIMATOR = ("fit", "predict", "predict_topk", "decision_function", "predict_proba", "score")
CLASSES = (  # heading, where, class, methods
    ("Model", "treetop", "Model", MODEL),
    ("Label", "treetop.model.model", "Label", ()),
    ("Dataset", "treetop", "Dataset", DATASET),
    ("Skipped", "treetop", "Skipped", ("save",)),
    ("Scores", "treetop.core.types", "Scores", ("to_dict",)),
    ("treetop.sklearn.XMCClassifier", "treetop.sklearn", "XMCClassifier", ESTIMATOR),
)
OTHERS = (("treetop.sklearn", "scorer"), ("treetop.hub", "push"), ("treetop.hub", "pull"))


def page() -> str:
    """The page; needs every optional package of the public interface."""
    treetop = import_module("treetop")
    parts = [NOTE, "# Python API", INTRO, "## Functions"]
    parts += [part for name in FUNCTIONS for part in _entry(f"treetop.{name}", getattr(treetop, name))]
    for title, module, name, methods in CLASSES:
        parts += _class(title, getattr(import_module(module), name), methods)
    parts.append("## Other modules")
    parts += [
        part for module, name in OTHERS for part in _entry(f"{module}.{name}", getattr(import_module(module), name))
    ]
    return "\n\n".join(parts) + "\n"


def _class(title: str, kind: Any, methods: Sequence[str]) -> Iterator[str]:
    yield f"## {title}"
    yield _text(kind)
    fields = [name for name in getattr(kind, "__annotations__", {}) if not name.startswith("_")]
    if fields and not methods:
        yield "Fields: " + ", ".join(f"`{name}: {kind.__annotations__[name]}`" for name in fields) + "."
    for name in methods:
        yield from _entry(f"{kind.__name__}.{name}", getattr(kind, name))


def _entry(title: str, found: Callable[..., Any]) -> Iterator[str]:
    yield f"### {title}"
    yield f"```py\n{_signature(title, found)}\n```"
    yield _text(found)


def _signature(title: str, found: Callable[..., Any]) -> str:
    """As it is called: without `self`, annotations without quotes, over several lines where it is long."""
    signature = inspect.signature(found)
    parameters = [one for name, one in signature.parameters.items() if name not in ("self", "cls")]
    words, starred = [], False
    for one in parameters:
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        starred = starred or one.kind is inspect.Parameter.VAR_POSITIONAL
        words.append(str(one))
    back = f" -> {signature.return_annotation}" if signature.return_annotation is not inspect.Signature.empty else ""
    whole = f"{title}({', '.join(words)}){back}"
    if len(whole) > WIDTH:
        whole = f"{title}(\n    " + ",\n    ".join(words) + f",\n){back}"
    return re.sub(r"'([^']*)'(?= = |[,)\n]|$)", _unquoted, whole)


def _unquoted(match: re.Match[str]) -> str:
    """An annotation without its quotes; a default keeps them."""
    before = match.string[: match.start()]
    return match[1] if before.endswith((": ", "-> ")) else match[0]


def _text(found: Any) -> str:
    """The docstring; examples become blocks."""
    text = inspect.getdoc(found) or ""
    return re.sub(r"(?ms)^>>> .*?(?=\n\n|\Z)", lambda match: f"```pycon\n{match[0]}\n```", text)
