"""`POST /v1/explain`: why these labels."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from treetop.kernels.runtime import threads
from treetop.model.explain import explain
from treetop.serve.schema import ExplainAnswer, ExplainBody
from treetop.serve.service import Service
from treetop.serve.settings import DEEPEST


def router(service: Service) -> APIRouter:
    """The route."""
    routes = APIRouter(tags=["predict"])

    @routes.post("/v1/explain", response_model=ExplainAnswer)
    def explain_(asked: ExplainBody) -> dict[str, Any]:
        """The words and the way through the tree behind the best labels of a text, or behind labels that are named.

        Nearest training texts are left out unless the server was started with --show-texts.
        """
        served = service.shelf.served(asked.model)
        model = served.model
        columns = None if asked.labels is None else [model.labels.find(label) for label in asked.labels]
        with threads.limited(service.settings.threads):
            found = explain(model, asked.text, asked.k if columns is None else DEEPEST, columns)
        told = [dict(explanation.to_dict()) for explanation in found]
        if not service.settings.show_texts:
            told = [{**explanation, "texts": None} for explanation in told]
        return {**served.stamp, "explanations": told}

    return routes
