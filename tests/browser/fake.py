"""A server with the routes of `treetop serve` and made-up answers: what the page does, without a model.

Two models: `alpha`, calibrated, with a tree, a report and a million labels; `beta`, not calibrated, without these.
"""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

PAGE = Path(__file__).parent.parent.parent / "treetop" / "serve" / "page"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'"
CSP += "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
MILLION = 1_000_000
BRANCHES = 50
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script> & 'quoted' \"name\""
LONG = "an endless name " * 62 + "its end"
NAMES = {
    "c1": "cats", "c2": "dogs", "c3": "domestic animals", "c4": "houses", "c5": "music", "odd1": MARKUP,
    "odd2": "שלום עולם, עברית", "odd3": "emoji 🐈‍⬛🏠 label", "odd4": LONG, "odd5": "wordwithoutblanks" * 59,
}  # fmt: skip
SPEAKS = {"cat": "c1", "dog": "c2", "domestic": "c3", "house": "c4", "music": "c5"}
CARD = f"""---
tags: [x]
---
# alpha over {MILLION:,} labels

Trained on **3** texts, see [the paper](https://example.org/paper) and [a file](other.md).

- first
- {MARKUP}

| metric | value |
| --- | ---: |
| P@1 | 90.10 |

```json
{{"a": 1}}
```
"""
THRESHOLDS = [
    {"precision": 0.5, "threshold": 0.3, "accepted": 0.8},
    {"precision": 0.7, "threshold": 0.55, "accepted": 0.6},
    {"precision": 0.9, "threshold": None, "accepted": None},
]


class Refusal(Exception):
    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None):
        self.status, self.detail, self.headers = status, detail, headers or {}


@dataclass
class Fake:
    """What the server was told, and how it is to behave."""

    token: str = ""
    delay: float = 0.0  # seconds of each prediction
    busy: int = 0  # so many predictions are answered 429
    fail: str = ""  # a path that is answered 500
    show_texts: bool = True
    version: str = "0123456789ab"
    versions: list[str] = field(default_factory=list)  # taken in turn instead
    requests: list[tuple[str, dict]] = field(default_factory=list)
    feedback: list[dict] = field(default_factory=list)

    def count(self, path: str) -> int:
        return sum(1 for each, _ in self.requests if each == path)

    def model(self, given: dict) -> str:
        name = given.get("model") or "alpha"
        if name not in {"alpha", "beta"}:
            raise Refusal(404, f"model '{name}': not served here. Ask /v1/models.")
        return name

    def facts(self, name: str) -> dict:
        rich = name == "alpha"
        return {
            "id": name, "recipe": "xr_linear" if rich else "popular", "version": self.version, "labels": MILLION,
            "documents": 3, "calibrated": rich, "loaded_at": "2026-01-02T03:04:05Z", "has_report": rich,
            "has_texts": rich and self.show_texts, "has_tree": rich, "accepts_feedback": rich,
        }  # fmt: skip

    def answer(self, path: str, given: dict) -> dict:
        self.requests.append((path, given))
        if path == self.fail:
            raise Refusal(500, "The disk is full. Free some space.")
        if self.versions:
            self.version = self.versions[len(self.requests) % len(self.versions)]
        name = self.model(given)
        route = ROUTES.get(path)
        if route is None:
            raise Refusal(404, f"{path}: no such address.")
        return {"model": name, "version": self.version, **route(self, name, given)}


def models(fake, name, given):
    return {"models": [fake.facts("alpha"), fake.facts("beta")]}


def model(fake, name, given):
    calibration = {"thresholds": THRESHOLDS} if name == "alpha" else None
    extra = {"card": CARD, "settings": {}, "metrics": {"P@1": 90.1}, "calibration": calibration, "previous": None}
    return {**fake.facts(name), **extra}


def ranked(text: str, name: str, k: int) -> list[dict]:
    words = re.findall(r"\w+", text.lower())
    found = [SPEAKS[word] for word in dict.fromkeys(words) if word in SPEAKS]
    if "odd" in words:
        found += [id_ for id_ in NAMES if id_.startswith("odd")]
    if name == "beta":
        found = [*reversed(found), "c5"] if "c5" not in found else list(reversed(found))
    found = list(dict.fromkeys(found))[:k]
    best = 0.1 if "faint" in words else 0.95
    sure = [None if name == "beta" else round(best * 0.8**place, 3) for place in range(len(found))]
    if "uneven" in words:
        sure.reverse()  # a lower score, but of a frequent label
    scores = [round(3 * 0.7**place - 1, 4) for place in range(len(found))]
    return [
        {"id": id_, "name": NAMES[id_], "score": score, "probability": p}
        for id_, score, p in zip(found, scores, sure, strict=True)
    ]


def predict(fake, name, given):
    time.sleep(fake.delay)
    if fake.busy > 0:
        fake.busy -= 1
        raise Refusal(429, "The server is busy. Try again in a second.", {"Retry-After": "1"})
    if any("TOOLONG" in text for text in given["texts"]):
        raise Refusal(413, "texts.0: longer than the model reads. Shorten it.")
    results = []
    for text in given["texts"]:
        labels = ranked(text, name, given["k"])
        if given.get("precision") is not None:
            line = next(each["threshold"] for each in THRESHOLDS if each["precision"] == given["precision"])
            labels = [label for label in labels if label["probability"] >= line]
        results.append({"labels": labels, "unknown": not labels, "known_words": 0.75})
    return {"results": results}


def explain(fake, name, given):
    text, found = given["text"], []
    near = [{"row": 12, "similarity": 0.9, "vote": 0.2, "text": "a cat of the training texts, " * 9}]
    for label in ranked(text, name, 100):
        if label["id"] not in given["labels"]:
            continue
        word = next((word for word, id_ in SPEAKS.items() if id_ == label["id"]), "odd")
        spans = [[match.start(), match.end()] for match in re.finditer(rf"\b{word}\b", text, re.I)]
        words = [{"term": word, "contribution": 1.2, "spans": spans}]
        others = [[match.start(), match.end()] for match in re.finditer(r"\bthe\b", text)]
        against = [{"term": "the", "contribution": -0.4, "spans": others}] if others else []
        steps = [
            {"level": 0, "node": 1, "view": "tfidf", "names": ["cats", "dogs"], "margin": 1.0, "own": 1, "score": 1,
             "base": 0.0, "gap": 0.0, "method": "exact", "parts": {}, "words": words},
            {"level": 1, "node": 5, "view": "tfidf", "names": [label["name"]], "margin": 0.5, "own": 1, "score": 1,
             "base": 0.0, "gap": 0.0, "method": "exact", "parts": {}, "words": [*words, *against]},
        ]  # fmt: skip
        member = {"recipe": "xr_linear", "source": 0, "weight": 1.0, "label": label["id"], "place": None}
        found.append(
            {**label, "label": label["name"], "count": 7, "joined": None,
             "members": [{**member, "score": 1.0, "steps": steps}],
             "neighbours": [{"id": "c2", "label": "dogs", "similarity": 0.5}],
             "texts": near if fake.show_texts else None}
        )  # fmt: skip
    return {"explanations": found}


def label_of(number: int) -> dict:
    return {"id": f"n{number}", "name": f"subject {number:07d}", "text": "", "count": number % 97, "status": "active"}


def named(id_: str) -> dict:
    if id_ in NAMES:
        return {"id": id_, "name": NAMES[id_], "text": f"about {NAMES[id_]}", "count": 7, "status": "active"}
    if not re.fullmatch(r"n\d+", id_) or int(id_[1:]) >= MILLION:
        raise Refusal(404, f"label '{id_[:60]}': not in this model. Search it with /v1/labels?q=.")
    return label_of(int(id_[1:]))


def labels(fake, name, given):
    query, offset, limit = given.get("q", ""), int(given.get("offset", 0)), int(given.get("limit", 20))
    hits = [named(id_) for id_, each in NAMES.items() if query.lower() in each.lower()]
    if not query or query == "subject":
        more = [label_of(i) for i in range(offset, min(MILLION, offset + limit))]
        return {"labels": more, "total": MILLION}
    if query.isdigit():
        hits += [label_of(int(query))] if int(query) < MILLION else []
    return {"labels": hits[offset : offset + limit], "total": len(hits)}


def item(fake, name, given):
    found = named(given["id"])
    branch = (int(found["id"][1:]) if found["id"].startswith("n") else 0) % BRANCHES
    path = [{"node": f"0-{branch}", "name": f"branch {branch}"}]
    relations = {"alt": ["moggies", "pussycats"], "broader": [{"id": "c2", "name": "dogs"}], "related": []}
    return {**found, "path": path, "similar": [{"id": "c2", "name": "dogs", "similarity": 0.5}], **relations}


def tree(fake, name, given):
    node, offset, limit = given.get("node", ""), int(given.get("offset", 0)), int(given.get("limit", 20))
    if not node:
        rows = [
            {"id": f"0-{i}", "name": f"branch {i}", "labels": MILLION // BRANCHES, "leaf": False}
            for i in range(BRANCHES)
        ]
        root = {"id": "", "name": "all labels", "labels": MILLION}
        return {"node": root, "children": rows[offset : offset + limit], "total": BRANCHES}
    branch, size = int(node[2:]), MILLION // BRANCHES
    numbers = range(branch, MILLION, BRANCHES)[offset : offset + limit]
    rows = [{"id": f"1-{i}", "name": f"subject {i:07d}", "labels": 1, "leaf": True, "label": f"n{i}"} for i in numbers]
    return {"node": {"id": node, "name": f"branch {branch}", "labels": size}, "children": rows, "total": size}


def feedback(fake, name, given):
    fake.feedback.append(given)
    return {"id": len(fake.feedback)}


ROUTES = {
    "/v1/models": models, "/v1/model": model, "/v1/predict": predict, "/v1/explain": explain, "/v1/labels": labels,
    "/v1/labels/item": item, "/v1/tree": tree, "/v1/feedback": feedback,
}  # fmt: skip
REPORT = "<!doctype html><html lang=en><title>r</title><h1>The report</h1><script>parent.hacked = 1</script></html>"


class Handler(BaseHTTPRequestHandler):
    fake: Fake
    protocol_version = "HTTP/1.1"

    def log_message(self, *given: object) -> None:
        pass

    def send(self, status: int, kind: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/" or parts.path.startswith("/page/"):
            return self.file(parts.path)
        self.reply(parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.reply(self.path, json.loads(body))

    def file(self, path: str) -> None:
        file = PAGE / ("index.html" if path == "/" else path.removeprefix("/page/"))
        if file.parent != PAGE or not file.is_file():
            return self.send(404, "text/plain", b"")
        headers = {"Content-Security-Policy": CSP, "X-Content-Type-Options": "nosniff"}
        self.send(200, TYPES[file.suffix] + "; charset=utf-8", file.read_bytes(), headers)

    def allowed(self, path: str) -> bool:
        if not self.fake.token or self.headers.get("Authorization") == f"Bearer {self.fake.token}":
            return True
        return path == "/v1/report" and f"treetop-token={self.fake.token}" in self.headers.get("Cookie", "")

    def reply(self, path: str, given: dict) -> None:
        try:
            if not self.allowed(path):
                raise Refusal(401, "Authorization: missing or wrong token. Send 'Authorization: Bearer TOKEN'.")
            if path == "/v1/report":
                return self.send(200, "text/html; charset=utf-8", REPORT.encode())
            status, body, kind, headers = 200, self.fake.answer(path, given), "application/json", {}
        except Refusal as refusal:
            status, kind, headers = refusal.status, "application/problem+json", refusal.headers
            body = {"type": "about:blank", "title": "Refused", "status": status, "detail": refusal.detail}
        self.send(201 if path == "/v1/feedback" and status == 200 else status, kind, json.dumps(body).encode(), headers)


def serve(fake: Fake) -> tuple[ThreadingHTTPServer, str]:
    """A running server and its address."""
    handler = type("FakeHandler", (Handler,), {"fake": fake})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/"
