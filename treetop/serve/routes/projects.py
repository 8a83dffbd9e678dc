"""Annif's API over the same models, so that a client changes nothing but the address: a project is a model."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from treetop.core.version import VERSION
from treetop.serve.batch import Row
from treetop.serve.feedback.store import Entry
from treetop.serve.problem import Problem
from treetop.serve.routes.predict import submitted
from treetop.serve.schema import LONGEST_ID
from treetop.serve.served import Served
from treetop.serve.service import Service
from treetop.serve.settings import DEEPEST, TEXTS

FORM = "application/x-www-form-urlencoded"
Limit = Annotated[int, Field(ge=1, le=DEEPEST)]
Threshold = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class SuggestForm(BaseModel):
    """The form of `suggest`; what else a client sends is ignored, as Annif does."""

    text: str
    limit: Limit = 10
    threshold: Threshold = 0.0


class Document(BaseModel):
    """A text of a batch."""

    text: str
    document_id: Annotated[str | None, Field(max_length=LONGEST_ID)] = None


class Documents(BaseModel):
    """The body of `suggest-batch`."""

    documents: Annotated[list[Document], Field(max_length=TEXTS)]


class Subject(BaseModel):
    """A label by its id."""

    model_config = ConfigDict(extra="ignore")
    uri: Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]


class Learnt(BaseModel):
    """A text with the labels it shall have."""

    model_config = ConfigDict(extra="ignore")
    text: str
    subjects: Annotated[list[Subject], Field(max_length=DEEPEST)]


FORM_BODY = {"requestBody": {"required": True, "content": {FORM: {"schema": SuggestForm.model_json_schema()}}}}


def router(service: Service) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["Annif-compatible"])

    @routes.get("/v1/")
    def api_info() -> dict[str, str]:
        """What answers here, as Annif's client asks."""
        return {"title": "treetop", "version": VERSION}

    @routes.get("/v1/projects")
    def projects() -> dict[str, Any]:
        """All models, as Annif lists projects."""
        return {"projects": [_project(place.now) for place in service.shelf.places.values()]}

    @routes.get("/v1/projects/{id}")
    def project(id: str) -> dict[str, Any]:
        """One model, as Annif describes a project."""
        return _project(service.shelf.served(id))

    @routes.post("/v1/projects/{id}/suggest", openapi_extra=FORM_BODY)
    async def suggest(id: str, request: Request) -> Response:
        """Suggest labels for one text, given as a form."""
        served = service.shelf.served(id)
        form = SuggestForm.model_validate(_form(await request.body(), request.headers.get("content-type", "")))
        rows = await submitted(service, served, [form.text], form.limit)
        return _answer(served, {"results": _results(rows[0], form.threshold)})

    @routes.post("/v1/projects/{id}/suggest-batch")
    async def suggest_batch(
        id: str,
        given: Documents,
        limit: Annotated[int, Query(ge=1, le=DEEPEST)] = 10,
        threshold: Annotated[float, Query(ge=0, le=1, allow_inf_nan=False)] = 0.0,
    ) -> Response:
        """Suggest labels for up to 32 texts."""
        served = service.shelf.served(id)
        texts = [document.text for document in given.documents]
        rows = await submitted(service, served, texts, limit) if texts else []
        pairs = zip(given.documents, rows, strict=True)
        return _answer(
            served, [{"document_id": d.document_id, "results": _results(row, threshold)} for d, row in pairs]
        )

    @routes.post("/v1/projects/{id}/learn", status_code=204, response_class=Response)
    def learn(id: str, given: list[Learnt]) -> Response:
        """Keep texts and their labels as feedback, for the next training (`treetop fit --with-feedback`)."""
        served, store = service.shelf.served(id), service.feedback
        entries = [
            Entry(item.text, "set", tuple(dict.fromkeys(s.uri for s in item.subjects)), served.id, served.version)
            for item in given
        ]
        if entries:
            store.add(entries)
        return Response(status_code=204)

    return routes


def _project(served: Served) -> dict[str, Any]:
    recipe = served.model.card.recipe
    return {
        "project_id": served.id, "name": f"{served.id} ({recipe})", "language": "", "backend": {"backend_id": recipe},
        "is_trained": True, "modification_time": served.loaded_at,
        "vocab": {"vocab_id": served.id, "languages": [], "loaded": True, "size": len(served.model.labels)},
    }  # fmt: skip


def _results(row: Row, threshold: float) -> list[dict[str, Any]]:
    """Labels as Annif writes them; a score is the probability where the model has one."""
    scored = [(label, label.score if label.probability is None else label.probability) for label in row.labels]
    return [
        {"uri": label.id, "label": label.name, "notation": None, "score": score}
        for label, score in scored
        if score >= threshold
    ]


def _answer(served: Served, content: Any) -> Response:
    """Annif's JSON has no place for the version; a header carries it."""
    return JSONResponse(content, headers={"treetop-version": served.version})


def _form(body: bytes, kind: str) -> dict[str, str]:
    try:
        if kind.startswith("multipart/"):
            raise ValueError(kind)
        return dict(parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body), errors="strict"))
    except ValueError:
        raise Problem(400, f"body: not a form in UTF-8. Send {FORM} with text, limit and threshold.") from None
