"""`/v1/models`, `/v1/model`, `/v1/report`: what is served, and how good it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from treetop.serve.problem import Problem
from treetop.serve.reply import REPORT_CSP
from treetop.serve.schema import ModelAnswer, Models
from treetop.serve.service import Service

Which = Annotated[str | None, Query(description="Id of a model; default: the first.", max_length=2000)]
LARGEST = 1 << 20  # bytes of metrics.json


def router(service: Service) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["models"])

    @routes.get("/v1/models", response_model=Models)
    def models() -> dict[str, Any]:
        """All models of this server; the first is the default."""
        shelf = service.shelf
        listed = [service.facts(place.now) for place in shelf.places.values()]
        return {**shelf.served().stamp, "models": listed}

    @routes.get("/v1/model", response_model=ModelAnswer)
    def model(model: Which = None) -> dict[str, Any]:
        """One model: card, settings, scores, thresholds."""
        place = service.shelf.place(model)
        served = place.now
        return {
            **service.facts(served),
            **served.stamp,
            "card": served.card,
            "settings": served.model.card.config,
            "metrics": _metrics(served.folder),
            "calibration": served.thresholds(),
            "previous": None if place.before is None else place.before.version,
        }

    @routes.get("/v1/report", response_class=Response)
    def report(model: Which = None) -> Response:
        """The evaluation report of a model, as HTML (`treetop evaluate --report`)."""
        served = service.shelf.served(model)
        page = service.report(served)
        if page is None:
            raise Problem(404, f"model '{served.id}': no report. Make one with `treetop evaluate --report DIR`.")
        headers = {"content-security-policy": REPORT_CSP}
        return Response(page.read_bytes(), media_type="text/html; charset=utf-8", headers=headers)

    return routes


def _metrics(folder: Path) -> dict[str, Any]:
    """What the model folder says of its scores; empty where it does not."""
    file = folder / "metrics.json"
    if not file.is_file() or file.stat().st_size > LARGEST:
        return {}
    found = json.loads(file.read_bytes())
    return found if isinstance(found, dict) else {}
