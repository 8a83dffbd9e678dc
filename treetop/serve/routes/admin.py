"""Health, readiness, figures; a model reloaded or rolled back."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from treetop.serve.guard import Guard
from treetop.serve.problem import Problem
from treetop.serve.routes.models import Which
from treetop.serve.schema import Reloaded
from treetop.serve.service import Service
from treetop.serve.settings import is_loopback

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def router(service: Service) -> APIRouter:
    """The routes."""
    routes, guard = APIRouter(tags=["operation"]), Guard(service.settings.token)

    @routes.get("/healthz")
    def healthz() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @routes.get("/readyz")
    def readyz(request: Request) -> Response:
        """Whether models answer, which versions, and whether a reload failed (the version before then goes on)."""
        places, failures = service.shelf.places, service.shelf.failures
        body: dict[str, Any] = {"status": "ready", "reload_failed": bool(failures)}
        if guard.allows(request.scope["headers"]):
            versions = {id_: place.now.version for id_, place in places.items()}
            body |= {**service.shelf.served().stamp, "versions": versions, "failures": failures}
        return JSONResponse(body)

    @routes.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> Response:
        """Figures of all workers, for Prometheus."""
        return Response(service.figures(), media_type=PROMETHEUS)

    @routes.post("/v1/reload", response_model=Reloaded)
    def reload(request: Request, model: Which = None) -> dict[str, Any]:
        """Open the model folder again; other workers follow within a second."""
        _check_local(request, service)
        place = service.shelf.place(model)
        before = place.now.version
        changed = service.reload(place.now.id)
        return {**place.now.stamp, "previous": before, "changed": changed}

    @routes.post("/v1/rollback", response_model=Reloaded)
    def rollback(request: Request, model: Which = None) -> dict[str, Any]:
        """Answer with the version before, until the folder changes or the server starts again."""
        _check_local(request, service)
        place = service.shelf.place(model)
        before = place.now.version
        service.rollback(place.now.id)
        return {**place.now.stamp, "previous": before, "changed": True}

    return routes


def _check_local(request: Request, service: Service) -> None:
    """Without a token, only this machine may change what is served."""
    client = request.client.host if request.client is not None else ""
    if not service.settings.token and not is_loopback(client):
        raise Problem(403, "reload, rollback: allowed from this machine only, or with a token.")
