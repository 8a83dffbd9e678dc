"""`/v1/feedback`: what people say of suggestions."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from treetop.serve.feedback.store import Entry
from treetop.serve.problem import Problem
from treetop.serve.routes.models import Which
from treetop.serve.schema import FeedbackAnswer, FeedbackBody, FeedbackStats
from treetop.serve.service import Service


def router(service: Service) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["feedback"])

    @routes.post("/v1/feedback", response_model=FeedbackAnswer, status_code=201)
    def feedback(given: FeedbackBody) -> dict[str, Any]:
        """Keep a verdict on one label of a text, or the set of its right labels; answered once it is on the disk."""
        store, served = service.feedback, service.shelf.served(given.model)
        verdict, named = _verdict(given)
        labels = served.model.labels
        ids = tuple(dict.fromkeys(labels.ids[labels.find(label)] for label in named))
        entry = Entry(given.text, verdict, ids, served.id, served.version)
        return {**served.stamp, "id": store.add([entry])}

    @routes.get("/v1/feedback/stats", response_model=FeedbackStats)
    def stats(model: Which = None) -> dict[str, Any]:
        """How much feedback there is, for all models."""
        counts = service.feedback.counts()
        return {**service.shelf.served(model).stamp, **counts, "sets": counts["set"]}

    return routes


def _verdict(given: FeedbackBody) -> tuple[str, list[str]]:
    """(verdict, labels) of one of the two forms of feedback."""
    single = given.label is not None and given.verdict is not None
    if given.labels is not None and given.label is None and given.verdict is None:
        return "set", given.labels
    if single and given.labels is None:
        return str(given.verdict), [str(given.label)]
    raise Problem(422, "feedback: give either label and verdict, or labels. Exactly one of the two forms is allowed.")
