"""A server's application in this process, asked one request at a time."""

from __future__ import annotations

import asyncio

import httpx

from treetop.serve.app import build
from treetop.serve.service import Service
from treetop.serve.settings import Settings


class Asked:
    """`get` and `post` as an HTTP client has them; `service` is what is asked."""

    def __init__(self, *models, **options):
        self.service = Service.start(Settings(tuple((f.name, f) for f in models), **options))
        self.app = build(self.service)

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def post(self, path, **options):
        return self.ask("POST", path, **options)

    def ask(self, method, path, client="127.0.0.1", base="http://127.0.0.1", **options):
        async def asked():
            transport = httpx.ASGITransport(self.app, client=(client, 1234))
            async with httpx.AsyncClient(transport=transport, base_url=base) as http:
                return await http.request(method, path, **options)

        return asyncio.run(asked())


def refusal(reply, status):
    """The sentence of a problem document."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    problem = reply.json()
    assert set(problem) == {"type", "title", "status", "detail"} and problem["status"] == status
    assert "\n" not in problem["detail"] and problem["detail"].endswith((".", "?"))
    return problem["detail"]
