import pytest
from scipy.sparse import csr_array

from tools.annif import prepare as module
from tools.annif import server as loads
from tools.annif.prepare import Annif, prepare, write_files
from tools.annif.server import PATH, form_bodies
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts


@pytest.fixture
def train():
    Y = csr_array([[1, 1, 0], [0, 0, 1]], dtype="float32")
    return Dataset(Texts.of(["a cat\tat home", "a dog\n"]), Y, LabelSet.of(["cat", "http://x.example/pet", "dog"]))


def test_files_are_as_annif_reads_them(tmp_path, train):
    write_files(tmp_path, train)
    lines = (tmp_path / "train.tsv").read_text().splitlines()
    assert lines[0].split("\t") == ["a cat at home", "<urn:x-treetop:cat> <http://x.example/pet>"]
    assert lines[1] == "a dog\t<urn:x-treetop:dog>"
    names = dict(line.split("\t") for line in (tmp_path / "labels.tsv").read_text().splitlines())
    assert names["<urn:x-treetop:dog>"] == "dog" and len(names) == 3
    assert "backend=tfidf" in (tmp_path / "projects.cfg").read_text()


def test_training_is_done_once_for_each_data_set(tmp_path, train, monkeypatch):
    calls = []
    monkeypatch.setattr(Annif, "call", lambda self, program, *words: calls.append(words[0]))
    monkeypatch.setattr(module.Dataset, "read", lambda data, split: train)
    annif = Annif(tmp_path / "bin" / "python", tmp_path / "work")
    prepare(annif, "one")
    prepare(annif, "one")
    assert calls == ["-c", "load-vocab", "train"]
    prepare(annif, "another")
    assert calls[3:] == ["-c", "load-vocab", "train"]


def test_every_text_is_a_form_of_one_line(tmp_path):
    requests = form_bodies(tmp_path / "bodies", ["a & b\nc", "ö"], 5)
    assert requests.bodies.read_text() == "text=a+%26+b%0Ac&limit=5\ntext=%C3%B6&limit=5\n"
    assert requests.path == PATH and requests.kind == "application/x-www-form-urlencoded"


class Backlog:
    """A server that works on old requests for three looks at its CPU time."""

    def __init__(self):
        self.looks = 0

    def cpu(self):
        self.looks += 1
        return float(min(self.looks, 3))

    def memory(self):
        return 2_000_000


def test_loads_begin_when_the_server_is_idle(monkeypatch):
    asked, server = [], Backlog()

    def wrk(_, seconds, connections, requests):
        asked.append(("wrk", server.looks))
        return {"connections": connections, "requests_per_s": 5.0 * connections}

    def load(_, rate, seconds, requests):
        asked.append((rate, server.looks))
        return {"rate": rate, "answered": 0}

    monkeypatch.setattr(loads, "wrk", wrk)
    monkeypatch.setattr(loads, "open_loop", load)
    monkeypatch.setattr(loads, "finished", lambda process: process)
    monkeypatch.setattr(loads.time, "sleep", lambda seconds: None)
    found = loads.measure(server, None, 1000, 10)
    assert list(found) == ["annif-maximum", "annif-half", "annif-rated"]
    assert [rate for rate, _ in asked] == [1, "wrk", "wrk", "wrk", 20, 1000]
    assert asked[1][1] == 4  # idle at the second pair of looks
    assert found["annif-maximum"]["memory_mb"] == 2.0 and found["annif-half"]["server_cpu_ms_per_request"] == 0
