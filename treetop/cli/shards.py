"""`treetop predict --out FOLDER/`: a Parquet file for each shard of the input, predicted here or on a cluster.

Plain tasks rather than Ray Data: texts are read by the same code as without a cluster, so that bad rows, columns and
encodings mean the same; a finished shard is one renamed file, which is all that `--resume` has to look for; and nodes
need neither the input nor the output folder. The driver reads, and writes what nodes send back, in order.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from treetop.cli.answering import ALL, UNKNOWN, answers_of
from treetop.cli.answers import Form, write
from treetop.cli.shard_folder import Folder, ends_of, name_of
from treetop.cli.streams import note
from treetop.core.errors import ConfigError, DataError
from treetop.core.executor import executor
from treetop.core.executor.threads import count
from treetop.core.forecast import duration, peak_memory, size
from treetop.core.log import logger, progress

if TYPE_CHECKING:
    from treetop.data.inputs import Input
    from treetop.model import Model

ROWS = 50_000  # texts of a shard where the number of shards is not given


@dataclass(frozen=True)
class Question:
    """What is asked of a model, and how the answers are written."""

    model: str  # its folder
    identity: str
    k: int
    lowest: float | None
    form: Form
    device: str = "cpu"
    fast: bool = False


class Answered(NamedTuple):
    """A shard as the bytes of a Parquet file, and what is worth noting."""

    content: bytes
    seen: Counter[str]  # texts: all, the unknown ones, those with a remark
    seconds: float
    peak: int  # bytes of memory of the process that predicted, at most so far


def identity(folder: str) -> str:
    """A hash of what a model folder holds, changes to its labels included; empty where there is no model."""
    digest = hashlib.sha256()
    for name in ("manifest.json", "edits/log.json"):
        file = Path(folder) / name
        if file.is_file():
            digest.update(name.encode() + file.read_bytes())
        elif name == "manifest.json":
            return ""
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1)
def _opened(question: Question) -> Model:
    """The model, memory-mapped; once in a process."""
    from treetop.model import load

    return load(question.model, device=question.device, fast=question.fast)


def answer_shard(inputs: list[Input], question: Question, model: Model | None = None) -> Answered:
    """The answers to some texts; without `model` the folder is opened, which is once in a process."""
    started, seen = time.monotonic(), Counter[str]()
    opened = _opened(replace(question, form=Form(), k=0, lowest=None)) if model is None else model
    raw = io.BytesIO()
    answers = answers_of(opened, iter(inputs), question.k, question.lowest, seen)
    target = io.TextIOWrapper(raw, encoding="utf-8")
    write(target, answers, question.form)
    return Answered(raw.getvalue(), seen, time.monotonic() - started, peak_memory())


def check_folder(out: Path | None, source: str, shard: str) -> None:
    """Refuse options that make no folder of shards, before anything is read."""
    if out is None:
        raise ConfigError("--out: missing. Name the folder to write the shards to.")
    if source == "-":
        raise ConfigError("--shards, --cluster: a stream has no known length. Give a file.")
    if shard != "1/1":
        raise ConfigError("--shard: is one of the shards that --shards and --cluster write all of. Leave it out.")


def question(model: Path, k: int, lowest: float | None, form: Form, device: str, fast: bool) -> Question:
    """The question to a model folder; on a cluster a GPU is used where it is asked for by name."""
    place = str(model.resolve())
    return Question(place, identity(place), k, lowest, form, "cpu" if device == "auto" else device, fast)


def open_folder(
    out: Path, asked: Question, source: str, total: int, parts: int | None, options: dict[str, Any], *, resume: bool,
    overwrite: bool,
) -> Folder:  # fmt: skip
    """The folder of shards, with all that decides them."""
    parts = min(parts or max(1, -(-total // ROWS)), max(1, total))
    return Folder.opened(out, parts, plan_of(asked, source, total, parts, options), resume=resume, overwrite=overwrite)


def plan_of(question: Question, source: str, total: int, parts: int, options: dict[str, Any]) -> dict[str, Any]:
    """All that decides the shards."""
    file = Path(source)
    facts: dict[str, Any] = {"input": source if file.is_dir() else ends_of(file), "texts": total, "shards": parts}
    asked = {
        "k": question.k,
        "lowest": question.lowest,
        "form": asdict(question.form),
        "fast": question.fast,
        **options,
    }
    return {"model": question.identity, **facts, "options": json.loads(json.dumps(asked, default=str))}


def shards_of(texts: Iterator[Input], total: int, parts: int, wanted: list[int]) -> Iterator[list[Input]]:
    """The texts of the wanted shards, cut as `--shard i/n` cuts them; those of others are read over."""
    at = 0
    for part in wanted:
        start, stop = total * (part - 1) // parts, total * part // parts
        for _ in islice(texts, start - at):
            pass
        shard = list(islice(texts, stop - start))
        if len(shard) != stop - start:
            raise DataError("the input became shorter while it was read. Start over with --overwrite.")
        yield shard
        at = stop


def predict_shards(question: Question, model: Model, texts: Iterator[Input], total: int, folder: Folder) -> None:
    """Predict the shards that are missing, write each when its turn comes, and say what was done."""
    here, wanted, started = executor.current(), folder.missing(), time.monotonic()
    sees_folder = all(found == question.identity for found in here.on_each_node(identity, question.model))
    if not sees_folder:
        logger.info("%s: not on every node, so the model travels to the others", question.model)
        model.predict([""], 1)  # what a model makes of itself at its first answer travels as well
    shards = shards_of(texts, total, folder.parts, wanted)
    results = _streamed(shards, question, None if here.remote and sees_folder else model)
    rows = 0
    with progress("texts", total) as bar:
        bar.step(total - sum(_length(part, folder.parts, total) for part in wanted))
        for part, answered in zip(wanted, results, strict=True):
            folder.put(name_of(part, folder.parts), answered.content)
            texts_, counts = answered.seen[ALL], {key: n for key, n in answered.seen.items() if key != ALL}
            facts = {
                "texts": texts_,
                UNKNOWN: 0,
                **counts,
                "seconds": round(answered.seconds, 3),
                "memory": answered.peak,
            }
            folder.note(part, facts)
            rows += texts_
            bar.step(texts_)
    _say(folder, total, rows, time.monotonic() - started)


def _streamed(shards: Iterator[list[Input]], question: Question, model: Model | None) -> Iterator[Answered]:
    """On a cluster a core for each shard, or a GPU; here one shard after the other, each on all threads."""
    here = executor.current()
    if here.remote:
        return here.stream(answer_shard, shards, question, model, gpus=int(question.device.startswith("cuda")))
    return (answer_shard(shard, question, model) for shard in shards)


def _length(part: int, parts: int, total: int) -> int:
    return total * part // parts - total * (part - 1) // parts


def _say(folder: Folder, total: int, rows: int, seconds: float) -> None:
    """Totals of the whole folder, and how fast this run was."""
    from treetop.model.remarks import is_remark, sentences

    lines, here = folder.noted(), executor.current()
    cores = here.cores if here.remote else count()
    peak = max((line.get("memory", 0.0) for line in lines), default=0.0)
    note(
        f"{folder.place}: {total:,} texts in {folder.parts:,} shards; this run {rows:,} in {duration(seconds)}, "
        f"{rows / max(seconds, 1e-9):,.0f} a second on {cores} {'core' if cores == 1 else 'cores'}, "
        f"at most {size(peak)} of memory in a process"
    )
    seen: Counter[str] = Counter()
    for line in lines:
        seen.update({key: n for key, n in line.items() if is_remark(key)})
    for sentence in sentences(seen, total):
        note(sentence)
