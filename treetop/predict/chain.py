"""Whether the levels of a model fit together: what a level names exists on the level above and below it.

Kernels follow these numbers without asking again, so a model that does not fit is never built.
"""

from __future__ import annotations

from collections.abc import Sequence

from treetop.core.abilities import HasParents, RanksSiblings
from treetop.core.errors import ModelError
from treetop.core.types import Level


def check_members(members: Sequence[Sequence[Level]], n_labels: int) -> None:
    """Refuse members without levels, levels that do not fit the one above, and last levels over other labels."""
    if not members:
        raise ModelError("the model has no members. It is damaged; copy it again.")
    for m, levels in enumerate(members, 1):
        above = 1
        for t, level in enumerate(levels, 1):
            if unfit := _unfit(level, above):
                raise ModelError(f"member {m}, level {t}: {unfit}. The model is damaged; copy it again.")
            above = level.rank.n
        if not levels or above != n_labels:
            raise ModelError(f"member {m}: the last level must rank the model's {n_labels} labels.")


def _unfit(level: Level, above: int) -> str:
    """Why a level cannot stand below `above` nodes; nothing where it can."""
    n, named = level.rank.n, level.shortlist.n
    if n < 1:
        return "it ranks no nodes"
    if named != n:
        return f"its shortlist names {named} nodes, but it ranks {n}"
    if not isinstance(level.shortlist, HasParents):
        return ""
    parents = level.shortlist.n_parents
    if parents != above:
        return f"its shortlist has {parents} parents, but there are {above} nodes above"
    if isinstance(level.rank, RanksSiblings) and level.rank.n_chunks != parents:
        return f"its weights are in {level.rank.n_chunks} chunks, but there are {parents} nodes above"
    return ""
