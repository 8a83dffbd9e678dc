"""The application: routes of the framework inside, the gate around them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from treetop.core.errors import TreetopError
from treetop.core.version import VERSION
from treetop.serve.gate import Gate
from treetop.serve.problem import TYPE, Problem, of_error, of_mistakes, of_validation
from treetop.serve.routes import admin, explain, feedback, labels, models, page, predict, projects
from treetop.serve.schema import ProblemAnswer
from treetop.serve.service import Service

PROBLEM = {"model": ProblemAnswer, "content": {TYPE: {}}, "description": "Refused, in one sentence."}
RESPONSES: dict[int | str, dict[str, Any]] = {"4XX": PROBLEM, "5XX": PROBLEM}


def build(service: Service) -> Gate:
    """The ASGI application of one worker."""
    app = FastAPI(
        title="treetop", version=VERSION, docs_url=None, redoc_url=None, redirect_slashes=False, responses=RESPONSES
    )
    handler = predict.Predict(service)
    for routes in (
        predict.router(handler), explain.router(service), models.router(service), labels.router(service),
        feedback.router(service), projects.router(service), admin.router(service), page.router(),
    ):  # fmt: skip
        app.include_router(routes)
    for kind, problem in _PROBLEMS.items():
        app.add_exception_handler(kind, _refusal(problem))
    return Gate(service, app, handler)


def _of_http(error: HTTPException) -> Problem:
    hints = {404: "There is nothing at this address.", 405: "This address does not take this method."}
    what = hints.get(error.status_code, str(error.detail))
    return Problem(error.status_code, f"{what} /openapi.json lists what there is.", dict(error.headers or {}))


_PROBLEMS: dict[Any, Any] = {
    Problem: lambda problem: problem,
    TreetopError: of_error,
    ValidationError: of_validation,
    RequestValidationError: lambda error: of_mistakes(error.errors()),
    HTTPException: _of_http,
}


def _refusal(problem: Any) -> Any:
    async def refuse(_: Request, error: Exception) -> Response:
        made = problem(error)
        return Response(made.body, made.status, made.headers, TYPE)

    return refuse
