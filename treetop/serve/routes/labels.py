"""`/v1/labels`, `/v1/labels/item`, `/v1/tree`: labels searched, one by one, and in their tree."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from treetop.core.abilities import HasLabelVectors
from treetop.core.dataset import RETIRED
from treetop.explain.explanation import Vocabulary
from treetop.explain.vocabulary import vocabulary
from treetop.kernels.runtime import threads
from treetop.serve.routes.models import Which
from treetop.serve.schema import LabelAnswer, Labels, Tree
from treetop.serve.served import Served
from treetop.serve.service import Service
from treetop.serve.settings import DEEPEST

NEAR = 10  # similar labels
SPARE = 16  # looked at beyond these, as some may be retired
Limit = Annotated[int, Query(ge=1, le=DEEPEST)]
Offset = Annotated[int, Query(ge=0, le=10**9)]


def router(service: Service) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["labels"])

    @routes.get("/v1/labels", response_model=Labels)
    def labels(
        q: Annotated[str, Query(max_length=500, description="Beginnings of words; a text for by=meaning.")] = "",
        by: Literal["prefix", "meaning"] = "prefix",
        limit: Limit = 20,
        offset: Offset = 0,
        model: Which = None,
    ) -> dict[str, Any]:
        """Search labels by the beginnings of words in their names, or by what the model thinks the words mean."""
        served = service.shelf.served(model)
        if by == "meaning" and q.strip():
            with threads.limited(service.settings.threads):
                found = served.model.rank([q], min(DEEPEST, offset + limit)).ids.tolist()
            columns, total = found[offset : offset + limit], len(found)
        else:
            columns, total = served.index().find(q, limit, offset)
        return {**served.stamp, "labels": [_facts(served, column) for column in columns], "total": total}

    @routes.get("/v1/labels/item", response_model=LabelAnswer)
    def item(id: Annotated[str, Query(max_length=2000)], model: Which = None) -> dict[str, Any]:
        """One label by its id, or by a name that only one has: its place in the tree, and labels like it."""
        served = service.shelf.served(model)
        column = served.model.labels.find(id)
        return {
            **served.stamp, **_facts(served, column), "path": served.browser.path(column),
            "similar": _similar(served, column), **_vocabulary(served, column),
        }  # fmt: skip

    @routes.get("/v1/tree", response_model=Tree, response_model_exclude_none=True)
    def tree(
        node: Annotated[str, Query(max_length=40, description="Id of a node; empty: the root.")] = "",
        offset: Offset = 0,
        limit: Limit = 100,
        model: Which = None,
    ) -> dict[str, Any]:
        """A node of the label tree and its children; names are those of the most frequent labels below."""
        served = service.shelf.served(model)
        return {**served.stamp, **served.browser.children(node, offset, limit)}

    return routes


def _facts(served: Served, column: int) -> dict[str, Any]:
    labels = served.model.labels
    status = "retired" if labels.status[column] == RETIRED else "active"
    return {
        "id": labels.ids[column], "name": labels.names[column], "text": labels.texts[column],
        "count": int(served.model.counts[column]), "status": status,
    }  # fmt: skip


def _vocabulary(served: Served, column: int) -> dict[str, Any]:
    """Alternative names, broader and related labels; empty where the vocabulary has none."""
    found = vocabulary(served.model.labels, column) or Vocabulary([], [], [])
    broader, related = ([{"id": one.id, "name": one.label} for one in some] for some in (found.broader, found.related))
    return {"alt": found.alt, "broader": broader, "related": related}


def _similar(served: Served, column: int) -> list[dict[str, Any]]:
    """Labels with a similar vector in the first member that has vectors; none for labels added after training."""
    model, labels = served.model, served.model.labels
    for levels in model.members:
        rank = levels[-1].rank
        if isinstance(rank, HasLabelVectors) and column < model.n_trained:
            ids, cosines = rank.similar(rank.vector(column), NEAR + SPARE)
            return [
                {"id": labels.ids[other], "name": labels.names[other], "similarity": cosine}
                for other, cosine in zip(ids.tolist(), cosines.tolist(), strict=True)
                if other != column and cosine > 0 and labels.status[other] != RETIRED
            ][:NEAR]
    return []
