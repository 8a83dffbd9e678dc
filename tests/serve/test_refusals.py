"""What is wrong, hostile or too much gets one sentence with a 4xx; a failure inside gets one with a 5xx."""

import asyncio
import json
import logging

import pytest

from asked import Asked, refusal
from treetop.serve import gate
from treetop.serve.settings import BODY

TOKEN = "0123456789abcdef"
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x00'\";--"


@pytest.fixture(scope="module")
def api(plain):
    return Asked(plain)


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        (b"", 400, "not valid JSON"),
        (b"{", 400, "not valid JSON"),
        (b'{"texts": ["\xff\xfe"]}', 400, "not valid JSON in UTF-8"),
        (b'{"texts": ["\\ud800"]}', 400, "not valid JSON"),
        (b"[" * 100_000, 400, "not valid JSON"),
        (b'"texts"', 422, "body"),
        (b"{}", 422, "texts: Field required"),
        (b'{"texts": []}', 422, "texts"),
        (b'{"texts": "cat"}', 422, "texts"),
        (b'{"texts": [null]}', 422, "texts.0"),
        (b'{"texts": ["cat"], "k": 1000000000}', 422, "k: Input should be less than or equal to 1000, got 1000000000"),
        (b'{"texts": ["cat"], "k": 0}', 422, "k"),
        (b'{"texts": ["cat"], "k": 2.5}', 422, "k"),
        (b'{"texts": ["cat"], "k": "5"}', 422, "k"),
        (b'{"texts": ["cat"], "k": true}', 422, "k"),
        (b'{"texts": ["cat"], "k": 1' + b"0" * 5000 + b"}", 400, "number out of range"),
        (b'{"texts": ["cat"], "threshold": NaN}', 422, "threshold"),
        (b'{"texts": ["cat"], "threshold": 1e999}', 422, "threshold"),
        (b'{"texts": ["cat"], "threshold": -0.1}', 422, "threshold"),
        (b'{"texts": ["cat"], "threshold": true}', 422, "threshold"),
        (b'{"texts": ["cat"], "threshold": "0.5"}', 422, "threshold"),
        (b'{"texts": ["cat"], "precision": true}', 422, "precision"),
        (b'{"texts": ["cat"], "limit": 3}', 422, "limit"),
        (json.dumps({"texts": ["cat"] * 33}).encode(), 422, "texts"),
        (b'{"texts": ["' + b"a" * BODY + b'"]}', 413, "more than 2,097,152 bytes"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_bad_bodies(api, body, status, part):
    assert part in refusal(api.post("/v1/predict", content=body), status)


@pytest.mark.parametrize("query", [b"q=%ff%fe", b"q=caf%e9", b"by=meaning&q=%c3"])
def test_queries_that_are_not_utf8(api, query):
    assert "query: not UTF-8" in refusal(api.get(f"/v1/labels?{query.decode()}"), 400)
    assert api.get("/v1/labels?q=caf%C3%A9").status_code == 200


@pytest.mark.parametrize("text", ["", " ", "\x00", MARKUP, "🙂" * 1000, "a" * 10_000, "a b " * 2000])
def test_odd_texts_are_answered(api, text):
    reply = api.post("/v1/predict", json={"texts": [text], "k": 1000})
    assert reply.status_code == 200 and reply.headers["content-type"] == "application/json"
    assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/page/../app.py", "/page/..%2fapp.py", "/page/%2e%2e/app.py", "/page//etc/passwd", "/page/index.html%00.js",
        "/page/", "/page/C:\\x.js", "/page/index.HTML", "/v1", "/nix", "/page/x.js", f"/page/{'a' * 5000}.js",
    ],
)  # fmt: skip
def test_path_tricks_find_nothing(api, path):
    assert refusal(api.get(path), 404)


def test_links_in_the_folder_of_the_page_are_not_followed(api, tmp_path):
    from fastapi import FastAPI

    from treetop.serve.routes import page

    (tmp_path / "secret.js").write_text("1")
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "link.js").symlink_to(tmp_path / "secret.js")
    (tmp_path / "page" / "ours.js").write_text("2")
    app = FastAPI()
    app.include_router(page.router(tmp_path / "page"))
    asked = Asked.__new__(Asked)
    asked.app = gate.Gate(api.service, app, {})
    assert asked.get("/page/ours.js").text == "2"
    assert "not a file of the page" in refusal(asked.get("/page/link.js"), 404)


def test_wrong_methods_and_queries(api):
    assert "does not take this method" in refusal(api.get("/v1/predict"), 405)
    assert "does not take this method" in refusal(api.ask("DELETE", "/v1/models"), 405)
    for query in ({"limit": "-1"}, {"limit": 10**9}, {"offset": "x"}, {"by": "colour"}, {"q": "a" * 501}):
        refusal(api.get("/v1/labels", params=query), 422)
    assert "node" in refusal(api.get("/v1/tree", params={"node": "9" * 41}), 422)


def test_json_that_is_not_called_json(api):
    said = refusal(api.post("/v1/explain", content=b'{"text": "cat"}', headers={"content-type": "text/plain"}), 422)
    assert said == "body: not read as JSON. Send a JSON object with Content-Type: application/json."


def test_markup_comes_back_as_data(api):
    said = refusal(api.get("/v1/labels/item", params={"id": MARKUP}), 404)
    assert "<script>" in said and "\x00" not in said and "\u202e" not in said
    assert api.get("/v1/labels", params={"q": MARKUP}).json()["labels"] == []


def test_tokens(plain):
    asked = Asked(plain, host="0.0.0.0", token=TOKEN)
    for given in (None, "", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", "Bearer é"):
        headers = {} if given is None else {"authorization": given.encode()}
        reply = asked.get("/v1/models", headers=headers)
        assert "Bearer TOKEN" in refusal(reply, 401) and reply.headers["www-authenticate"] == "Bearer"
    for path in ("/metrics", "/openapi.json", "/v1/predict", "/nix"):
        refusal(asked.get(path), 401)
    good = {"authorization": f"bearer {TOKEN}"}
    assert asked.get("/v1/models", headers=good, base="http://example.org").status_code == 200
    for path in ("/healthz", "/"):
        assert asked.get(path).status_code == 200
    assert "versions" not in asked.get("/readyz").json() and "versions" in asked.get("/readyz", headers=good).json()
    assert asked.post("/v1/reload", headers=good, client="10.1.1.1").status_code == 200


def test_without_a_token_only_this_machine_is_answered(api):
    assert "answers this machine only" in refusal(api.get("/v1/models", base="http://evil.example"), 403)
    for host in ("http://localhost:8000", "http://[::1]:8000", "http://127.0.0.1"):
        assert api.get("/v1/models", base=host).status_code == 200
    body = {"texts": ["cat"]}
    assert "own page" in refusal(api.post("/v1/predict", json=body, headers={"origin": "http://evil.example"}), 403)
    assert api.post("/v1/predict", json=body, headers={"origin": "http://127.0.0.1"}).status_code == 200
    assert "this machine only" in refusal(api.post("/v1/reload", client="10.1.1.1"), 403)
    assert "this machine only" in refusal(api.post("/v1/rollback", client="10.1.1.1"), 403)


def test_too_many_requests(api):
    pressure = api.service.pressure
    pressure.enter(pressure.limit)
    try:
        for path in ("/v1/predict", "/v1/projects/plain/suggest"):
            reply = api.post(path, json={"texts": ["cat"]})
            assert "Too many requests" in refusal(reply, 429) and reply.headers["retry-after"] == "1"
        assert api.get("/healthz").status_code == api.get("/v1/models").status_code == 200
    finally:
        pressure.leave(pressure.texts)
    pressure.others = 32
    try:
        refusal(api.get("/v1/models"), 429)
        assert api.get("/metrics").status_code == api.get("/readyz").status_code == 200
    finally:
        pressure.others = 0


def test_an_error_inside_is_one_sentence_and_no_text_is_logged(api, monkeypatch, caplog):
    text = "a secret"

    def broken(*_):
        raise RuntimeError(text)

    monkeypatch.setattr(api.service.batcher, "_rows", broken)
    logging.getLogger("treetop").addHandler(caplog.handler)
    try:
        assert refusal(api.post("/v1/predict", json={"texts": [text]}), 500) == (
            "An error of the server itself; its log says where."
        )
    finally:
        logging.getLogger("treetop").removeHandler(caplog.handler)
    assert "RuntimeError in a request: broken (test_refusals.py:" in caplog.text and "secret" not in caplog.text


def test_no_answer_in_time(api, monkeypatch):
    async def never(*_):
        await asyncio.sleep(60)

    monkeypatch.setattr(gate, "SECONDS", 0.05)
    monkeypatch.setattr(gate, "_through", never)
    assert "No answer within" in refusal(api.get("/v1/models"), 503)


def test_a_client_that_leaves_and_one_that_is_no_client(api):
    async def asked(scope, *messages):
        sent = []
        left = list(messages)

        async def receive():
            return left.pop(0)

        async def send(message):
            sent.append(message)

        await api.app(scope, receive, send)
        return sent

    scope = {"type": "http", "method": "POST", "path": "/v1/predict", "headers": [(b"host", b"127.0.0.1")]}
    half = {"type": "http.request", "body": b"{", "more_body": True}
    assert asyncio.run(asked(scope, half, {"type": "http.disconnect"}))[0]["status"] == 400
    large = {"type": "http.request", "body": b"a" * (1 << 20), "more_body": True}
    for rest in ([large, {**large, "more_body": False}], [large] * 16):  # read to its end, unless it is much too large
        answer = asyncio.run(asked(scope, large, *rest))
        assert answer[0]["status"] == 413 and (b"connection", b"close") in answer[0]["headers"]
    assert asyncio.run(asked({"type": "websocket"}))[0]["type"] == "websocket.close"
