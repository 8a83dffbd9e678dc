"""Write data in any format; losses are refused by name unless they are allowed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from treetop.core.dataset import ACTIVE, Dataset
from treetop.core.errors import InputError, WorkError, choose
from treetop.core.leftovers import temporary
from treetop.core.log import logger
from treetop.core.target import check_outside, fresh_folder, full_disk_named
from treetop.data import catalog
from treetop.data.detect import written_formats
from treetop.data.format import CONTENT, SPLITS, Format, Writing


def write(
    data: Dataset | Mapping[str, Dataset],
    path: str | Path,
    format: str = "jsonl",
    *,
    lossy: bool = False,
    gzip: bool = False,
) -> None:
    """Write one Dataset (as train) or several splits into a new folder `path`."""
    out = Path(path)
    known = written_formats()
    kind = known[choose("format", format, known, InputError)]
    splits = _one_label_space({"train": data} if isinstance(data, Dataset) else dict(data))
    lost = losses(splits, kind, out.name)
    if lost and not lossy:
        raise InputError(
            f"{out}: format '{kind.name}' cannot hold {', '.join(lost)}. Leave them out with lossy=True (--lossy), or "
            "write jsonl, which holds everything."
        )
    if lost:
        logger.warning("%s: left out: %s", out, ", ".join(lost))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise WorkError(f"{out}: exists already and is not empty. Choose another folder or remove it.")
    check_outside(out)
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    scratch = fresh_folder(out.absolute().parent, out.name + ".")
    try:
        with full_disk_named(out), temporary(scratch):
            _writer(kind)(Writing(scratch, splits, gzip=gzip, lossy=lossy))
        if out.exists():
            out.rmdir()
        scratch.rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _writer(kind: Format) -> Callable[[Writing], None]:
    if kind.write is None:
        raise InputError(f"format '{kind.name}': can only be read. Write another, such as jsonl.")
    return kind.write


def _one_label_space(splits: dict[str, Dataset]) -> dict[str, Dataset]:
    """The splits with the same labels in the same columns."""
    for name in splits:
        choose("split", name, sorted(set(SPLITS.values())), InputError)
    if not splits:
        raise InputError("write: no split given. Give at least one Dataset.")
    labels = next(iter(splits.values())).labels
    for data in splits.values():
        labels = data.align(labels).labels
    return {name: data if data.labels is labels else data.align(labels) for name, data in splits.items()}


def losses(splits: Mapping[str, Dataset], kind: Format, name: str) -> list[str]:
    """Descriptions of what the format cannot hold of these data."""
    there = contents(splits, name)
    return [words for key, words in CONTENT.items() if key in there and key not in kind.holds]


def contents(splits: Mapping[str, Dataset], name: str = "") -> set[str]:
    """Which of `CONTENT` the data carry beyond defaults; `name` is what the catalogue will be asked for."""
    parts = list(splits.values())
    labels = parts[0].labels
    ids, names, texts = list(labels.ids), list(labels.names), list(labels.texts)
    used = np.zeros(len(labels), bool)
    for data in parts:
        used[data.Y.indices] = True
    facts = {
        "texts": any(data.texts.lengths().any() for data in parts),
        "features": any("given" in data.features for data in parts),
        "views": any(data.features.keys() - {"given"} for data in parts),
        "ids": any(data.ids is not None for data in parts),
        "soft": any((data.Y.data != 1).any() for data in parts),
        "relevance": any(data.relevance is not None for data in parts),
        "roles": any(data.roles is not None and data.roles.any() for data in parts),
        "filter": any(data.filter_pairs is not None and len(data.filter_pairs) for data in parts),
        "label ids": ids != [str(column) for column in range(len(ids))],
        "label names": names != [text or id_ for text, id_ in zip(texts, ids, strict=True)],
        "label texts": any(texts),
        "thesaurus": labels.thesaurus is not None,
        "status": bool((labels.status != ACTIVE).any()),
        "unused": not used.all(),
        "propensity": parts[0].propensity != catalog.propensity(name),
        "language": bool(parts[0].language),
    }
    return {key for key, here in facts.items() if here}
