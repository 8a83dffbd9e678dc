"""A level as stored in a model folder."""

from __future__ import annotations

from treetop.core import registry
from treetop.core.errors import ModelError
from treetop.core.store import Part
from treetop.core.types import Join, Level


def level_part(level: Level) -> Part:
    """A level as data."""
    config = {
        "view": level.view,
        "transform": level.join.transform,
        "combine": level.join.combine,
        "beam": level.beam,
        "keep_by": level.keep_by,
    }
    return Part("level.1", config, {}, {"shortlist": level.shortlist.to_part(), "rank": level.rank.to_part()})


def level_from_part(part: Part) -> Level:
    """What `level_part` stored, checked."""
    if part.kind != "level.1":
        raise ModelError(f"expected a part of kind 'level.1', found '{part.kind}'.")
    join = Join(part.setting("transform", str), part.setting("combine", str))
    shortlist, rank = (registry.restore(part.parts[name], name) for name in ("shortlist", "rank"))
    beam, keep_by = part.setting("beam", int), part.setting("keep_by", str)
    return Level(part.setting("view", str), shortlist, rank, join, beam, keep_by)
