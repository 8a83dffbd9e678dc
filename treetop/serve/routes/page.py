"""The page: `/` and its files under `/page/`. Only plain files of that one folder, by their names."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response

from treetop.serve.problem import Problem

FOLDER = Path(__file__).parent.parent / "page"
NAME = re.compile(r"[a-z0-9_-]{1,50}\.(html|js|css|svg|png|ico)", re.ASCII)
MEDIA = {
    "html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml", "png": "image/png", "ico": "image/x-icon",
}  # fmt: skip


def router(folder: Path = FOLDER) -> APIRouter:
    """The routes; they are not in `/openapi.json`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    def index(request: Request) -> Response:
        return _file(folder, "index.html", request)

    @routes.get("/page/{name:path}")
    def asset(name: str, request: Request) -> Response:
        return _file(folder, name, request)

    return routes


def _file(folder: Path, name: str, request: Request) -> Response:
    file = folder / name
    if not NAME.fullmatch(name) or not file.is_file() or file.is_symlink():
        raise Problem(404, f"{name}: not a file of the page.")
    content = file.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=MEDIA[name.rpartition(".")[2]], headers=headers)
