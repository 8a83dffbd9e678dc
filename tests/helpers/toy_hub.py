"""A hub on this machine: as much of Hugging Face's protocol as pushing and pulling a model needs, and its faults."""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

TOKEN = "hf_right"


class Hub:
    """Repositories in memory: name -> list of commits, each {path: bytes}."""

    def __init__(self) -> None:
        self.repositories: dict[str, list[dict[str, bytes]]] = {}
        self.blobs: dict[str, bytes] = {}
        self.cut = ""  # downloads of files that end so break off in the middle
        self.asked: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def files(self, name: str) -> dict[str, bytes]:
        return self.repositories[name][-1]

    def commit_of(self, name: str, revision: str) -> int:
        """The number of a commit by branch or hash; -1 where there is none."""
        commits = self.repositories[name]
        hashes = [sha(name, i) for i in range(len(commits))]
        if revision == "main":
            return len(commits) - 1
        return hashes.index(revision) if revision in hashes else -1


def sha(name: str, number: int) -> str:
    return hashlib.sha1(f"{name}{number}".encode()).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def _send(self, code: int, body: object = b"", **headers: str) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        raw = b""
        while length := int(self.rfile.readline(), 16):
            raw += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return raw

    def _allowed(self) -> bool:
        if self.headers.get("Authorization") == f"Bearer {TOKEN}":
            return True
        self._send(401, {"error": "Invalid username or password."}, X_Error_Message="Invalid username or password.")
        return False

    def do_POST(self) -> None:
        path, body = unquote(urlsplit(self.path).path), self._body()
        if not self._allowed():
            return
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
            self.hub.repositories.setdefault(name, [{".gitattributes": b""}])
            self._send(200, {"url": f"{self.hub.address}/{name}"})
        elif path == "/api/validate-yaml":
            _, facts, _ = json.loads(body)["content"].split("---\n", 2)
            bad = not isinstance(yaml.safe_load(facts), dict)
            self._send(400 if bad else 200, {"errors": [{"message": "not a mapping"}] if bad else [], "warnings": []})
        elif "/preupload/" in path:
            files = json.loads(body)["files"]
            mode = [(f["path"], "lfs" if f["path"].endswith(".safetensors") else "regular") for f in files]
            self._send(200, {"files": [{"path": p, "uploadMode": m, "shouldIgnore": False} for p, m in mode]})
        elif path.endswith(".git/info/lfs/objects/batch"):
            found = []
            for item in json.loads(body)["objects"]:
                upload = {"href": f"{self.hub.address}/blob/{item['oid']}"}
                found.append({"oid": item["oid"], "size": item["size"], "actions": {"upload": upload}})
            self._send(200, {"transfer": "basic", "objects": found})
        elif "/commit/" in path:
            self._commit(path.split("/api/models/")[1].split("/commit/")[0], body)
        else:
            self._send(404, {"error": path})

    def _commit(self, name: str, body: bytes) -> None:
        files = dict(self.hub.files(name))
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.blobs[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        self.hub.repositories[name].append(files)
        oid = sha(name, len(self.hub.repositories[name]) - 1)
        done = {"success": True, "commitOid": oid, "commitUrl": f"{self.hub.address}/{name}/commit/{oid}"}
        self._send(200, {**done, "hookOutput": ""})

    def do_PUT(self) -> None:
        raw = self._body()
        oid = self.path.rsplit("/", 1)[1]
        assert hashlib.sha256(raw).hexdigest() == oid
        self.hub.blobs[oid] = raw
        self._send(200)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        path, query = unquote(parts.path), parse_qs(parts.query)
        self.hub.asked.append(path)
        if path.startswith("/api/models/"):
            name, _, revision = path.removeprefix("/api/models/").partition("/revision/")
            name, tree, rest = name.partition("/tree/")
            self._facts(name, (rest if tree else revision) or "main", bool(tree), query)
        elif "/resolve/" in path:
            name, _, rest = path[1:].partition("/resolve/")
            revision, _, file = rest.partition("/")
            self._file(name, revision, file)
        else:
            self._send(404, {"error": path})

    def _known(self, name: str, revision: str) -> int:
        if name not in self.hub.repositories:
            self._send(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
            return -1
        if (number := self.hub.commit_of(name, revision)) < 0:
            self._send(404, {"error": "Invalid rev id"}, X_Error_Code="RevisionNotFound")
        return number

    def _facts(self, name: str, revision: str, tree: bool, query: dict[str, list[str]]) -> None:
        if (number := self._known(name, revision)) < 0:
            return
        files = self.hub.repositories[name][number]
        if tree:
            self._send(200, [{"type": "file", "path": p, "size": len(b), "oid": "0" * 40} for p, b in files.items()])
            return
        siblings = [{"rfilename": path, "size": len(raw), "blobId": "0" * 40} for path, raw in files.items()]
        self._send(200, {"id": name, "modelId": name, "sha": sha(name, number), "siblings": siblings})

    def _file(self, name: str, revision: str, file: str) -> None:
        if (number := self._known(name, revision)) < 0:
            return
        raw = self.hub.repositories[name][number].get(file)
        if raw is None:
            self._send(404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound")
            return
        headers = {"X_Repo_Commit": sha(name, number), "ETag": f'"{hashlib.sha256(raw).hexdigest()}"'}
        if self.command == "GET" and self.hub.cut and file.endswith(self.hub.cut):
            self.send_response(200)
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw[: len(raw) // 2])
            self.close_connection = True
            return
        self._send(200, raw, **headers)
