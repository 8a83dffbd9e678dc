"""Resumable work: a long job is a list of named stages, each written atomically; a killed job resumes after the last.

Stages are stored in `<out>.work/`. `key.json` there identifies the job (data, settings, recipe, format); work of
another job is refused naming the differing part. A damaged stage is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from treetop.core.errors import ModelError, WorkError
from treetop.core.log import logger
from treetop.core.sealed import seal, unseal
from treetop.core.store import Part, check_folder, read_part, write_manifest, write_part
from treetop.core.target import check_target, exclusive_lock, replacing, without_dots, write_error

KEY = "key.json"
LONGER = 1.2  # by which training on all documents takes longer than without those held out


@dataclass(frozen=True)
class Job:
    """What a training run gets besides data and settings: seed, device, where its stages are kept, and hooks."""

    seed: int = 0
    device: str = "auto"
    work: Path | None = None  # None: keep nothing, a killed job starts over
    budget: Mapping[str, float] = field(default_factory=dict)  # bytes and seconds
    mix: Any = None  # of an augmentation: how rows of a batch are mixed (train/hooks.py)
    penalty: Any = None  # of an augmentation: what label vectors pay (train/hooks.py)
    held_out: Any = None  # documents kept out of training (a Dataset), for figures after every epoch
    aim: Any = "balanced"  # what a fusion learnt on them serves: balanced, precision or tail
    folds: bool = False  # few documents: fusion and probabilities come from models of folds (held_out/folds.py)
    everything: Any = None  # training rows and held-out ones together (a Dataset), for what is fitted again at the end
    ends: float = math.inf  # when the time budget is used up, by `time.monotonic`
    keep_texts: bool = False  # whether the model keeps the training texts
    self_pairs: Any = "auto"  # of documents that are labels themselves: auto, keep or bar (assemble/self_pairs.py)
    reads: dict[Any, Any] | None = None  # what a frozen encoder made of texts, kept between trainings on samples

    def within(self, name: str) -> Job:
        """The same job with its stages in a folder of their own, where stages of one name are made more than once."""
        if self.work is None:
            return self
        folder = self.work / name
        folder.mkdir(exist_ok=True)
        return replace(self, work=folder)

    def may_repeat(self, seconds: float) -> bool:
        """Whether there is time to train once more on all documents what took so long without those held out."""
        if LONGER * seconds <= self.ends - time.monotonic():
            return True
        logger.warning("no time to train once more with the held-out documents; the model was trained without them")
        return False

    def stage(self, name: str, make: Callable[[], Part]) -> Part:
        """The part `make()` returns, or the one an earlier run of the same job left here."""
        if self.work is None:
            return make()
        folder = self.work / name
        if folder.exists():
            try:
                check_folder(folder, check="full")
                return read_part(folder)
            except ModelError as error:
                logger.warning("stage %s is damaged and is computed again (%s)", name, error)
        part = make()
        with replacing(folder) as fresh:
            write_part(fresh, part)
            write_manifest(fresh, {"stage": name})
        return read_part(folder)


def open_work(out: Path, key: Mapping[str, Any], *, resume: bool = False, overwrite: bool = False) -> Path:
    """The work folder of `out`; refuses to mix jobs, or to replace a model unless asked."""
    check_target(out, overwrite=overwrite)
    folder = _work_folder(out)
    _check_ours(folder, out)
    if folder.exists():
        with work_lock(folder):
            pass
    if folder.exists() and overwrite and not resume:
        remove_work(folder)
    flat = _fingerprints(key)
    if folder.exists():
        if not resume:
            raise WorkError(
                f"{folder}: is an interrupted run. Add --resume to continue it, or --overwrite to start over."
            )
        try:
            earlier = unseal(folder / KEY)
        except ModelError:
            raise WorkError(
                f"{folder}: its key.json is damaged, so this run cannot be resumed. Add --overwrite (without --resume) "
                "to start over."
            ) from None
        if differing := [name for name in flat if earlier.get(name) != flat[name]]:
            raise WorkError(
                f"{folder}: belongs to a job with other {', '.join(differing)}. "
                "Give the same command as before, or add --overwrite (without --resume) to start over."
            )
        return folder
    with replacing(folder) as fresh:
        (fresh / KEY).write_bytes(seal(flat))
    return folder


def is_finished(out: Path, key: Mapping[str, Any], model: Mapping[str, Any]) -> bool:
    """True when the model at `out`, which describes its job as `model`, belongs to this job; else WorkError.

    Stages that a process left which was killed between the two are removed.
    """
    if differing := [name for name in model if fingerprint(model[name]) != fingerprint(key[name])]:
        raise WorkError(
            f"{out}: exists already and is the model of a job with other {', '.join(differing)}. Choose another "
            "folder, or replace it with --overwrite (overwrite=True)."
        )
    folder = _work_folder(out)
    if (folder / KEY).is_file() and not folder.is_symlink():
        with contextlib.suppress(ModelError, WorkError, OSError):
            if unseal(folder / KEY).items() >= _fingerprints(key).items():
                with work_lock(folder):
                    shutil.rmtree(folder)
    return True


def target_of(out: Path, rank: int) -> Path:
    """What stands for `out` where process number `rank` of several trains; the first one writes the model."""
    return out if rank == 0 else out.with_name(f"{out.name}.rank-{rank}")


def of_process(work: Path, rank: int) -> Path:
    """Where process number `rank` keeps what another one of the same training keeps in `work`.

    >>> of_process(Path("a/model.work/held-out"), 2).as_posix()
    'a/model.rank-2.work/held-out'
    """
    for folder in (work, *work.parents):
        if folder.name.endswith(".work"):
            out = folder.with_name(re.sub(r"(\.rank-\d+)?\.work$", "", folder.name))
            return _work_folder(target_of(out, rank)) / work.relative_to(folder)
    return work


def beyond(out: Path, size: int) -> list[Path]:
    """Work folders left by an earlier run of more than `size` processes."""
    name = re.compile(re.escape(out.name) + r"\.rank-(\d+)\.work")
    found = ((folder, name.fullmatch(folder.name)) for folder in without_dots(out).parent.iterdir())
    return [folder for folder, match in found if match and int(match[1]) >= size and (folder / KEY).is_file()]


def _work_folder(out: Path) -> Path:
    folder = without_dots(out)
    return folder.with_name(folder.name + ".work")


def _fingerprints(key: Mapping[str, Any]) -> dict[str, str]:
    return {name: fingerprint(value) for name, value in key.items()}


@contextlib.contextmanager
def work_lock(folder: Path) -> Iterator[None]:
    """Lock a work folder, so that no other process trains into it at the same time."""
    busy = f"{folder}: another process is training into it now. Wait until it ends, or choose another --out."
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(exclusive_lock(folder / KEY, busy))
        except OSError as error:
            raise write_error(folder, error) from error
        yield


def remove_work(folder: Path) -> None:
    """Remove a work folder, the key last: after a failure it is still recognised as an interrupted run."""
    try:
        for item in folder.iterdir():
            if item.name != KEY:
                shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()
        shutil.rmtree(folder)
    except OSError as error:
        raise WorkError(f"{folder}: cannot be removed ({error.strerror}). Remove it yourself.") from error


def _check_ours(folder: Path, out: Path) -> None:
    """Refuse a work folder that was not created by treetop: it may contain a user's files."""
    ours = folder.is_dir() and not folder.is_symlink() and (folder / KEY).is_file()
    if (folder.exists() or folder.is_symlink()) and not ours:
        raise WorkError(
            f"{folder}: is not an interrupted run, but the stages of {out} would be stored there. Move it away, or "
            "choose another --out."
        )


def fingerprint(value: Any) -> str:
    """A short hash of plain values (or of bytes-like arrays), stable between runs and machines."""
    raw: bytes | memoryview
    if isinstance(value, str | int | float | bool | None | list | tuple | dict):
        raw = json.dumps(value, sort_keys=True, ensure_ascii=False).encode()
    else:
        raw = memoryview(value).cast("B")
    return hashlib.sha256(raw).hexdigest()[:16]
