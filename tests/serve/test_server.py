"""A real server: processes, sockets, signals."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

import toy
import treetop
from treetop.serve.feedback.store import read_feedback


class Server:
    """`treetop serve` in a process of its own."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "treetop", "serve", *map(str, words), "--port", "0"],
            stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1", "COLUMNS": "300"},
        )  # fmt: skip
        self.lines = []
        while True:
            line = self.process.stderr.readline()
            self.lines.append(line)
            if found := re.search(r"(http://\S+:(\d+)),", line):
                self.url, self.port = found[1], int(found[2])
                break
            assert line, "".join(self.lines)
        self._reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
        self._reader.start()

    def workers(self):
        """Process ids, without Python's helper of processes."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def end(self, number=signal.SIGTERM):
        """Seconds from the signal to the end, and the exit code."""
        started = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(10)
        self._reader.join(5)
        self.process.stderr.close()
        return time.monotonic() - started, code


@pytest.fixture(scope="module")
def home(plain, tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    shutil.copytree(plain, folder / "m")
    return folder


@pytest.fixture(scope="module")
def server(home):
    made = Server(home / "m", "--workers", 2, "--feedback", home / "f.sqlite", "--watch", 0)
    yield made
    if made.process.poll() is None:
        made.end()


def predict(client, url, text="cat"):
    return client.post(f"{url}/v1/predict", json={"texts": [text]})


def asked_by_hand(port, data, wait=10.0):
    """What comes back for bytes as they are, until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), wait) as sock:
        sock.sendall(data)
        got = b""
        with contextlib.suppress(TimeoutError):
            while more := sock.recv(65536):
                got += more
        return got


def test_answers_come_in_one_packet_at_once(server):
    with httpx.Client() as client:
        predict(client, server.url)
        times = []
        for _ in range(30):
            started = time.perf_counter()
            assert predict(client, server.url).status_code == 200
            times.append(time.perf_counter() - started)
    assert sorted(times)[15] < 0.03  # with Nagle's algorithm and delayed acknowledgements 40 ms
    body = json.dumps({"texts": ["cat"]}).encode()
    head = b"POST /v1/predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", server.port), 5) as sock:
        sock.sendall(head + body)
        assert b"\r\n\r\n{" in sock.recv(1 << 20)
        sock.sendall(head.replace(b"length", b"Length") + body[:5])  # a body in two pieces, the connection kept
        time.sleep(0.05)
        sock.sendall(body[5:])
        assert b"200 OK" in sock.recv(1 << 20)


def test_what_is_not_http(server):
    for data in (b"\x00\x01\x02\r\n\r\n", b"GET / SPAM/9\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n"):
        answer = asked_by_hand(server.port, data)
        assert answer.startswith(b"HTTP/1.1 400") and b"application/problem+json" in answer
    post = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    for length in (b"5\r\ncontent-length: 9", b"-1", b"+5", b"9" * 30, b"5\r\ntransfer-encoding: chunked"):
        smuggled = b"\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n"
        answer = asked_by_hand(server.port, post + b"content-length: " + length + smuggled)
        assert answer.startswith(b"HTTP/1.1 400") and answer.count(b"HTTP/1.1 ") == 1
    chunks = b"transfer-encoding: chunked\r\n\r\n" + (b"10000\r\n" + b"a" * (1 << 16) + b"\r\n") * 100
    for data in (
        chunks + b"0\r\n\r\n",
        b"content-length: 8000000\r\n\r\n" + b"a" * 8_000_000,
    ):  # all of it is sent first
        assert asked_by_hand(server.port, post + data).startswith(b"HTTP/1.1 413")
    answer = asked_by_hand(server.port, b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 12_000)
    assert answer.startswith(b"HTTP/1.1 400")
    answer = asked_by_hand(
        server.port, b"GET /page/../../app.py HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 404")
    answer = asked_by_hand(
        server.port, b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999\r\n\r\n{"
    )
    assert answer.startswith(b"HTTP/1.1 413") and b"connection: close" in answer
    assert predict(httpx, server.url).status_code == 200
    assert len(server.lines) == 1  # the log cannot be filled with what is not HTTP


def request(texts, *headers):
    body = json.dumps({"texts": texts}).encode()
    lines = ["POST /v1/predict HTTP/1.1", "host: localhost", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def answers(port, data, n):
    """(status line, headers, body) of each answer to bytes sent at once, and whether the connection was closed then."""
    found = []
    with socket.create_connection(("127.0.0.1", port), 10) as sock, sock.makefile("rb") as file:
        sock.sendall(data)
        for _ in range(n):
            head = {}
            status = file.readline().decode()
            while line := file.readline().decode().strip():
                name, _, value = line.partition(": ")
                head[name] = value
            found.append((status, head, json.loads(file.read(int(head["content-length"])))))
        sock.settimeout(0.3)
        try:
            closed = sock.recv(1) == b""
        except TimeoutError:
            closed = False
    return found, closed


def test_answers_are_the_same_either_way(server):
    direct, closed = answers(server.port, request(["cat dogs"]), 1)
    general, _ = answers(server.port, request(["cat dogs"], "expect: none"), 1)
    assert direct[0][1].pop("date") and general[0][1].pop("date")
    assert direct == general and not closed
    assert direct[0][0] == "HTTP/1.1 200 OK\r\n" and direct[0][2]["results"][0]["labels"]


def test_a_connection_is_closed_where_the_client_wants_that(server):
    ((_, head, _),), closed = answers(server.port, request(["cat"], "connection: close"), 1)
    assert head["connection"] == "close" and closed


def test_requests_sent_at_once_are_answered_in_their_order(server):
    texts = ["cat", "dog", "bird", "fish"]
    alone = [answers(server.port, request([text]), 1)[0][0][2] for text in texts]
    together, _ = answers(server.port, b"".join(request([text]) for text in texts), len(texts))
    assert [body for _, _, body in together] == alone


def test_a_client_that_sends_and_sends_and_reads_nothing_is_left_without_a_word_in_the_log(server):
    known = len(server.lines)
    for ahead in (40, 3):
        with socket.create_connection(("127.0.0.1", server.port), 10) as sock:
            sock.sendall(request(["cat"] * 32, "x: y") * ahead)
            sock.sendall(b"\x00\r\n\r\n")
    for _ in range(12):
        assert predict(httpx, server.url).status_code == 200
    time.sleep(0.3)
    assert server.lines[known:] == []


def test_refusals_are_problem_documents(server):
    ((status, head, body),), _ = answers(server.port, request([]), 1)
    assert status.startswith("HTTP/1.1 422") and head["content-type"] == "application/problem+json"
    assert body["detail"].startswith("texts: ")
    data = request(["cat"]).replace(b"host: localhost", b"host: evil.org")
    ((status, _, _),), _ = answers(server.port, data, 1)
    assert status.startswith("HTTP/1.1 403")


def test_a_head_alone_is_sent_where_one_is_asked_for(server):
    for path in ("/healthz", "/readyz", "/", "/page/app.js"):
        answer = asked_by_hand(
            server.port, f"HEAD {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
        )
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"\r\n\r\n"), answer
        size = int(re.search(rb"content-length: (\d+)", answer)[1])
        assert size == len(httpx.get(server.url + path).content)
    assert httpx.head(f"{server.url}/v1/predict").status_code == 405


def test_figures_are_those_of_all_workers(server):
    for _ in range(12):  # a connection each, so that both workers answer
        predict(httpx, server.url)
    counts = set()
    for _ in range(4):
        time.sleep(0.25)
        text = httpx.get(f"{server.url}/metrics").text
        assert "treetop_workers 2" in text
        counts.add(re.search(r'requests_total{route="predict",status="2xx"} (\d+)', text)[1])
    assert len(counts) == 1 and int(counts.pop()) >= 12


def test_workers_share_one_copy_of_the_models_arrays(server, home):
    files = {str(file) for file in (home / "m").rglob("*.safetensors")}
    for worker in server.workers():
        mapped = dict(re.findall(r"^[0-9a-f]+-[0-9a-f]+ .*? (/\S+)\n((?:\w+: .*\n)+)", smaps(worker), flags=re.M))
        assert files and files <= mapped.keys()
        assert all(re.search(r"^Anonymous: +0 kB$", mapped[file], flags=re.M) for file in files)


def smaps(pid):
    return Path(f"/proc/{pid}/smaps").read_text()


def versions(url, n=12):
    return {predict(httpx, url).json()["version"] for _ in range(n)}


def eventually(true, seconds=10):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_reload_without_a_failed_request_and_rollback_in_all_workers(server, home):
    (old,) = versions(server.url)
    answers, stop = [], threading.Event()

    def load():
        with httpx.Client() as client:
            while not stop.is_set():
                answers.append(predict(client, server.url).status_code)
                time.sleep(0.005)

    asking = [threading.Thread(target=load) for _ in range(2)]
    for thread in asking:
        thread.start()
    treetop.fit("popular", toy.dataset(), out=home / "m", overwrite=True, calibrate=False)
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: old not in versions(server.url, 6))
    new = versions(server.url)
    assert httpx.post(f"{server.url}/v1/rollback").json()["version"] == old
    eventually(lambda: versions(server.url, 6) == {old})
    assert httpx.post(f"{server.url}/v1/reload").json()["version"] in new
    eventually(lambda: versions(server.url, 6) == new)
    stop.set()
    for thread in asking:
        thread.join()
    assert set(answers) == {200} and len(answers) > 20


def test_a_worker_that_dies_is_replaced_and_feedback_is_kept(server, home):
    workers = server.workers()
    assert len(workers) == 2
    body = {"text": "kept", "label": "L01", "verdict": "accept"}
    ids = [httpx.post(f"{server.url}/v1/feedback", json=body).json()["id"] for _ in range(5)]
    os.kill(workers[0], signal.SIGKILL)
    eventually(lambda: any("another takes its place" in line for line in server.lines))
    with httpx.Client(timeout=20) as client:
        assert {predict(client, server.url).status_code for _ in range(8)} == {200}
    assert {entry.id for entry in read_feedback(home / "f.sqlite")} >= set(ids)


def test_it_ends_within_five_seconds_and_texts_are_nowhere_in_the_log(server):
    idle = socket.create_connection(("127.0.0.1", server.port))
    half = socket.create_connection(("127.0.0.1", server.port))
    half.sendall(b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{")
    predict(httpx, server.url, "a very secret text")
    seconds, code = server.end()
    assert seconds < 5 and code == 0
    assert "secret" not in "".join(server.lines) and "Traceback" not in "".join(server.lines)
    idle.close()
    half.close()


def listening(port):
    """How many sockets take connections on a port."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def test_connections_to_a_worker_that_has_ended_are_refused(plain):
    made = Server(plain, "--workers", 2)
    slow, _ = made.workers()
    assert listening(made.port) == 2
    os.kill(slow, signal.SIGSTOP)
    made.process.send_signal(signal.SIGTERM)
    eventually(lambda: listening(made.port) == 1, 4)
    os.kill(slow, signal.SIGCONT)
    assert made.end()[1] == 0


def test_an_impatient_second_signal_changes_nothing(plain):
    made = Server(plain, "--workers", 1)
    half = socket.create_connection(("127.0.0.1", made.port))
    half.sendall(request(["cat"])[:-1])
    made.process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    seconds, code = made.end()
    half.close()
    assert seconds < 5 and code == 0 and len(made.lines) == 1, made.lines


def test_a_damaged_model_is_refused(plain, tmp_path):
    shutil.copytree(plain, tmp_path / "m")
    (tmp_path / "m" / "manifest.json").write_text("{}")
    words = [sys.executable, "-m", "treetop", "serve", tmp_path / "m", "--port", "0", "--workers", "1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and re.fullmatch(r"error: [^\n]+\n", done.stderr), done.stderr
    assert str(tmp_path / "m") in done.stderr
