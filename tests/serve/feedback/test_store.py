"""Feedback on the disk: append-only, shared by processes, refused in one sentence where it cannot be written."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from asked import Asked, refusal
from treetop.core.errors import InputError, ResourceError
from treetop.serve.feedback.store import Entry, FeedbackStore, read_feedback


def entry(n):
    return Entry(f"text {n}", "accept", (f"L{n}",), "m", "v")


def test_entries_come_back_in_order(tmp_path):
    store = FeedbackStore(tmp_path / "f.sqlite")
    assert [store.add([entry(n)]) for n in range(3)] == [1, 2, 3]
    assert store.add([entry(3), Entry("é\x00", "set", ())]) == 5
    found = read_feedback(store.file)
    assert [e.id for e in found] == [1, 2, 3, 4, 5] and found[0].labels == ("L0",) and found[0].at.endswith("Z")
    assert (found[4].text, found[4].labels) == ("é\x00", ())
    assert store.counts() == {"texts": 5, "accept": 4, "reject": 0, "add": 0, "set": 1}
    store.close()


def test_nothing_is_changed_or_removed(tmp_path):
    store = FeedbackStore(tmp_path / "f.sqlite")
    store.add([entry(1)])
    with sqlite3.connect(store.file) as connection:
        for statement in ("DELETE FROM feedback", "UPDATE feedback SET text = ''"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    store.close()


def test_many_threads_and_two_stores(tmp_path):
    stores = [FeedbackStore(tmp_path / "f.sqlite") for _ in range(2)]
    work = [threading.Thread(target=lambda s=s: [s.add([entry(n)]) for n in range(20)]) for s in stores * 2]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert len(read_feedback(stores[0].file)) == 80
    for store in stores:
        store.close()


WRITER = """
import sys
from pathlib import Path
from treetop.serve.feedback.store import Entry, FeedbackStore
store, n = FeedbackStore(Path(sys.argv[1])), 0
while True:
    store.add([Entry(f"text {n}", "add", ("L",))])
    print(n, flush=True)
    n += 1
"""


def test_nothing_acknowledged_is_lost_by_a_kill(tmp_path):
    file = tmp_path / "f.sqlite"
    acknowledged = 0
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", WRITER, file], stdout=subprocess.PIPE, text=True)
        lines = [process.stdout.readline() for _ in range(30)]
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().splitlines()
        process.wait()
        process.stdout.close()
        acknowledged += len(lines) + len(rest)
        assert acknowledged <= len(read_feedback(file)) <= acknowledged + 2
    assert len(read_feedback(file)) >= acknowledged


def test_places_that_cannot_be_written(tmp_path):
    for place in (tmp_path / "nix" / "f.sqlite", tmp_path):
        with pytest.raises(ResourceError, match="could not be stored .* send it again"):
            FeedbackStore(place).add([entry(1)])


def test_a_full_disk_is_told_and_prediction_goes_on(plain, tmp_path):
    api = Asked(plain, feedback=tmp_path / "f.sqlite")
    body = {"text": "t", "label": "L01", "verdict": "accept"}
    assert api.post("/v1/feedback", json=body).status_code == 201
    connection = api.service.store._open()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")  # SQLite then says what it says of a full disk
    said = refusal(api.post("/v1/feedback", json={**body, "text": "t" * 100_000}), 507)
    assert "database or disk is full" in said and "send it again" in said
    assert api.post("/v1/predict", json={"texts": ["cat"]}).status_code == 200
    assert api.post("/v1/feedback", json=body).json()["id"] == 2  # as soon as there is room
    api.service.close()


def test_a_disk_that_cannot_be_written_when_the_server_starts(plain, tmp_path, caplog):
    api = Asked(plain, feedback=tmp_path / "nix" / "f.sqlite")
    caplog.set_level("INFO", "treetop")
    api.service.store.open()
    body = {"text": "t", "label": "L01", "verdict": "accept"}
    assert "unable to open" in refusal(api.post("/v1/feedback", json=body), 507)
    assert "unable to open" in refusal(api.get("/v1/feedback/stats"), 507)
    assert api.post("/v1/predict", json={"texts": ["cat"]}).status_code == 200
    assert caplog.text.count("cannot be stored and is refused with 507 (unable to open") == 1  # not again and again
    (tmp_path / "nix").mkdir()
    assert api.post("/v1/feedback", json=body).status_code == 201
    assert [record.getMessage().endswith("stored again") for record in caplog.records] == [False, True]
    api.service.close()


def test_files_that_are_no_feedback(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_feedback(tmp_path / "nix")
    (tmp_path / "text").write_text("not a database, but long enough to be read as one" * 20)
    with pytest.raises(InputError, match="not readable as feedback"):
        read_feedback(tmp_path / "text")
    with pytest.raises(InputError, match="is no database"):
        FeedbackStore(tmp_path / "text").open()
    with sqlite3.connect(tmp_path / "other") as connection:
        connection.execute("CREATE TABLE a (b)")
    connection.close()
    for use in (lambda: read_feedback(tmp_path / "other"), lambda: FeedbackStore(tmp_path / "other").add([entry(1)])):
        with pytest.raises(InputError, match="is another database"):
            use()
    store = FeedbackStore(tmp_path / "newer")
    store.add([entry(1)])
    store.close()
    with sqlite3.connect(tmp_path / "newer") as connection:
        connection.execute("PRAGMA user_version=9")
    connection.close()
    with pytest.raises(InputError, match="format 9"):
        read_feedback(tmp_path / "newer")
    shutil.rmtree(tmp_path)
