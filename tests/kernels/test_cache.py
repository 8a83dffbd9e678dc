"""Compiled code on disk: several processes write it at once."""

import threading
from contextlib import suppress

from numba.core.caching import IndexDataCacheFile

from treetop.kernels import _locked


def test_writers_that_meet_leave_each_its_own_code(tmp_path, monkeypatch):
    meet, plain = threading.Barrier(2), IndexDataCacheFile._load_index

    def load_index(self):
        made = plain(self)
        with suppress(threading.BrokenBarrierError):  # nobody else comes this far while one writes
            meet.wait(0.5)
        return made

    def write(kind):
        IndexDataCacheFile(str(tmp_path), "kernel", 0).save(kind, f"code for {kind}")

    monkeypatch.setattr(IndexDataCacheFile, "_load_index", load_index)
    writers = [threading.Thread(target=write, args=(kind,)) for kind in ("int32", "float32")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    monkeypatch.undo()
    held = IndexDataCacheFile(str(tmp_path), "kernel", 0)
    assert {kind: held.load(kind) for kind in ("int32", "float32")} == {
        "int32": "code for int32",
        "float32": "code for float32",
    }


def test_a_folder_that_takes_no_lock_is_written_without(tmp_path):
    with _locked(tmp_path / "absent"):
        pass
