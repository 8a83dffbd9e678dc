"""Feedback in SQLite: append-only, on the disk before it is acknowledged (WAL, synchronous=FULL)."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treetop.core.errors import InputError, ResourceError
from treetop.core.log import logger

VERDICTS = ("accept", "reject", "add", "set")
FORMAT = 1
BUSY = 5.0  # seconds to wait for another worker that is writing
SCHEMA = """
CREATE TABLE IF NOT EXISTS feedback (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, model TEXT NOT NULL, version TEXT NOT NULL,
  text TEXT NOT NULL, verdict TEXT NOT NULL CHECK (verdict IN ('accept', 'reject', 'add', 'set')), labels TEXT NOT NULL
);
CREATE TRIGGER IF NOT EXISTS never_changed BEFORE UPDATE ON feedback
  BEGIN SELECT RAISE(ABORT, 'feedback is append-only'); END;
CREATE TRIGGER IF NOT EXISTS never_removed BEFORE DELETE ON feedback
  BEGIN SELECT RAISE(ABORT, 'feedback is append-only'); END;
"""
INSERT = "INSERT INTO feedback (at, model, version, text, verdict, labels) VALUES (?, ?, ?, ?, ?, ?)"
FIELDS = "id, at, model, version, text, verdict, labels"


@dataclass(frozen=True)
class Entry:
    """One piece of feedback: a verdict on labels of a text; `set` names all labels that are right."""

    text: str
    verdict: str
    labels: tuple[str, ...]  # ids
    model: str = ""
    version: str = ""
    at: str = ""
    id: int = 0


class FeedbackStore:
    """Writes feedback into one file, which several processes may share."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._refused = False  # of late

    def open(self) -> None:
        """Open or create the file; refused if it is another. What its disk refuses is logged, as it may go away."""
        with self._lock, contextlib.suppress(ResourceError), self._told():
            self._open()

    def add(self, entries: Sequence[Entry]) -> int:
        """Store entries in one transaction; returns the id of the last once they are on the disk."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        rows = [(at, e.model, e.version, e.text, e.verdict, json.dumps(e.labels, ensure_ascii=False)) for e in entries]
        with self._lock, self._told():
            connection = self._open()
            with connection:  # commits, or takes everything back
                last = [connection.execute(INSERT, row).lastrowid for row in rows]
            if self._refused:
                self._refused = False
                logger.info("%s: feedback is stored again", self.file)
        return last[-1] or 0

    def counts(self) -> dict[str, int]:
        """How many verdicts of each kind there are, and on how many texts."""
        with self._lock, self._told():
            connection = self._open()
            found = dict(connection.execute("SELECT verdict, count(*) FROM feedback GROUP BY verdict").fetchall())
            texts = connection.execute("SELECT count(DISTINCT text) FROM feedback").fetchone()[0]
        return {"texts": texts, **{verdict: found.get(verdict, 0) for verdict in VERDICTS}}

    def close(self) -> None:
        """Close the file."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = sqlite3.connect(self.file, BUSY, check_same_thread=False)
            try:
                _prepare(connection, self.file)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Say what is wrong with the file, to the log once, and open it anew next time."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            if not self._refused:
                logger.warning("%s: feedback cannot be stored and is refused with 507 (%s)", self.file, error)
            self._refused = True
            connection, self._connection = self._connection, None
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    connection.close()
            raise ResourceError(
                f"feedback: could not be stored ({error}). Nothing was kept; check the rights and the space of its "
                "disk, and send it again."
            ) from error


def _prepare(connection: sqlite3.Connection, file: Path) -> None:
    """Make a new file one of feedback; other workers may do the same at this moment, and SQLite does not wait here."""
    deadline = time.monotonic() + BUSY
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            if _check_format(connection, file) != FORMAT:
                connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version={FORMAT}; COMMIT;")
            return
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
                raise InputError(f"{file}: is no database. Give another file, or one that does not exist.") from None
            if error.sqlite_errorcode not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def read_feedback(file: Path) -> list[Entry]:
    """All entries in the order they came."""
    if not file.is_file():
        raise InputError(f"{file}: no such file. Give the one that `treetop serve --feedback` wrote.")
    try:
        with contextlib.closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", BUSY, uri=True)) as connection:
            _check_format(connection, file)
            rows = connection.execute(f"SELECT {FIELDS} FROM feedback ORDER BY id").fetchall()
    except sqlite3.Error as error:
        raise InputError(
            f"{file}: not readable as feedback ({error}). Give the file that `treetop serve --feedback` wrote."
        ) from None
    return [_entry(file, *row) for row in rows]


def _check_format(connection: sqlite3.Connection, file: Path) -> int:
    """The format of a file of feedback, 0 if it is new."""
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    foreign = found == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if foreign or found not in (0, FORMAT):
        raise InputError(
            f"{file}: is another database, or feedback of format {found}; this treetop reads {FORMAT}. Give another."
        )
    return int(found)


def _entry(file: Path, id_: Any, at: Any, model: Any, version: Any, text: Any, verdict: Any, labels: Any) -> Entry:
    try:
        ids = tuple(str(label) for label in json.loads(labels))
    except (ValueError, TypeError):
        raise InputError(f"{file}: entry {id_} names no labels. The file is damaged.") from None
    return Entry(str(text), str(verdict), ids, str(model), str(version), str(at), int(id_))
