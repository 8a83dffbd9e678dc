"""The folder that `treetop predict` writes shards to: a Parquet file each, what they answer, and a line for each."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treetop.core.errors import WorkError
from treetop.core.target import check_outside, full_disk_named, sync

PLAN, DONE = "_plan.json", "_shards.jsonl"  # names that readers of Parquet folders leave out
ENDS = 1 << 20  # bytes at both ends of the input that are compared when a run is resumed


def name_of(part: int, parts: int) -> str:
    """The file of a shard, from 1.

    >>> name_of(2, 8)
    'part-00002-of-00008.parquet'
    """
    return f"part-{part:05d}-of-{parts:05d}.parquet"


@dataclass(frozen=True)
class Folder:
    """A folder of shards: which are there, and whether they belong to the same question."""

    place: Path
    parts: int

    @classmethod
    def opened(cls, place: Path, parts: int, plan: dict[str, Any], *, resume: bool, overwrite: bool) -> Folder:
        """The folder to write to; refuses to mix the answers to different questions."""
        folder, file = cls(place, parts), place / PLAN
        check_outside(place)
        if place.exists() and not place.is_dir():
            raise WorkError(f"--out {place}: is not a folder. Give the name of a folder for the shards.")
        if place.is_dir() and any(place.iterdir()):
            if not file.is_file():
                raise WorkError(f"--out {place}: has files that are no shards. Choose another folder.")
            if not (resume or overwrite):
                raise WorkError(
                    f"--out {place}: has shards already. Add --resume to go on, or --overwrite to replace them."
                )
            earlier = _read_plan(file)
            differing = [name for name, value in plan.items() if earlier.get(name) != value]
            if resume and differing:
                raise WorkError(
                    f"--out {place}: has shards of a run with other {', '.join(differing)}. Give the same command as "
                    "before, or --overwrite to start over."
                )
            if resume:  # without a last line that was cut off
                folder.put(DONE, "".join(json.dumps(line) + "\n" for line in folder.noted()).encode())
            else:
                folder.clear()
        place.mkdir(parents=True, exist_ok=True)
        folder.put(PLAN, (json.dumps(plan, indent=1, sort_keys=True) + "\n").encode())
        return folder

    def clear(self) -> None:
        for file in (*self.place.glob("part-*-of-*.parquet"), self.place / DONE, self.place / PLAN):
            file.unlink(missing_ok=True)

    def put(self, name: str, content: bytes) -> None:
        """Write a file under another name, then rename it: it is there as a whole or not at all."""
        fresh = self.place / f".{name}.tmp"
        with full_disk_named(self.place / name):
            fresh.write_bytes(content)
            sync(fresh)
            fresh.replace(self.place / name)

    def missing(self) -> list[int]:
        """Shards that are not there yet."""
        return [part for part in range(1, self.parts + 1) if not (self.place / name_of(part, self.parts)).exists()]

    def note(self, part: int, facts: dict[str, Any]) -> None:
        """A line about a finished shard."""
        with full_disk_named(self.place / DONE), (self.place / DONE).open("a", encoding="utf-8") as out:
            out.write(json.dumps({"shard": part, **facts}) + "\n")

    def noted(self) -> list[dict[str, Any]]:
        """The lines of finished shards, each once; a line that was cut off counts as absent."""
        found: dict[int, dict[str, Any]] = {}
        if (self.place / DONE).is_file():
            for line in (self.place / DONE).read_text(encoding="utf-8").splitlines():
                try:
                    facts = json.loads(line)
                    found[facts["shard"]] = facts
                except (ValueError, KeyError, TypeError):
                    continue
        return list(found.values())


def _read_plan(file: Path) -> dict[str, Any]:
    try:
        plan = json.loads(file.read_bytes())
    except (OSError, ValueError):
        plan = None
    if not isinstance(plan, dict):
        raise WorkError(f"{file}: is damaged. Add --overwrite (without --resume) to start over.")
    return plan


def ends_of(file: Path) -> str:
    """Size of a file, and a hash of its ends."""
    size, digest = file.stat().st_size, hashlib.sha256()
    with file.open("rb") as source:
        digest.update(source.read(ENDS))
        source.seek(max(0, size - ENDS))
        digest.update(source.read(ENDS))
    return f"{size} bytes, {digest.hexdigest()[:16]}"
