"""Changes to labels from a list of them as they should be: what `treetop labels import` does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from treetop.core.dataset import RETIRED
from treetop.edit.carry import Step, Transfer
from treetop.edit.changes import ANYONE, By

if TYPE_CHECKING:
    from treetop.model import Model


def differences(model: Model, wanted: Mapping[str, Mapping[str, str]], by: By = ANYONE) -> Transfer:
    """What makes the model's labels those of a list {id: {"name", "text", "status", "into"}}.

    A field that is missing stays as it is, and so does a label that is not listed; unknown ids are `lost`.
    """
    now, plan = model.labels, Transfer()
    merged = {} if model.edits is None else model.edits.merged
    steps: dict[str, dict[str, object]] = {"restore": {}, "rename": {}, "merge": {}, "retire": {}}
    for id_, row in wanted.items():
        if id_ not in now.columns:
            plan.lost.append(("rename", id_))
            continue
        column = now.columns[id_]
        has = {"name": now.names[column], "text": now.texts[column]}
        if changed := {key: row[key] for key in has if row.get(key) and row[key] != has[key]}:
            steps["rename"][id_] = changed
        into, retired = row.get("into"), bool(now.status[column] == RETIRED)
        goes_to = now.ids[merged[column]] if column in merged else None
        if into is not None and into != goes_to:
            steps["merge"][id_] = into
        elif into is None and row.get("status") == "retired" and not retired:
            steps["retire"][id_] = None
        if retired and (id_ in steps["merge"] or (into is None and row.get("status") == "active")):
            steps["restore"][id_] = None
    plan.steps = [Step(action, labels, by) for action, labels in steps.items() if labels]
    return plan
