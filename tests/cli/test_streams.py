"""Commands where the shell, the locale or the system is odd: an answer that loses nothing, or one sentence."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import toy
from command import ENV, run
from treetop.cli import faults

NAME = "crème 日本 😀"
ODD = os.fsdecode(b"d\xff")  # a file's name that is no text


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Data in an odd folder with an odd label, and a model of them in another."""
    folder = tmp_path_factory.mktemp("streams")
    data = toy.dataset(0)
    (folder / ODD).mkdir()
    toy.write_rows(data, folder / ODD / "train.jsonl")
    rows = [{"id": id_, "text": name} for id_, name in zip(data.labels.ids, data.labels.names, strict=True)]
    rows[0]["text"] = NAME
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / ODD / "labels.jsonl").write_text(text, encoding="utf-8")
    done = run("fit", "neighbours", folder / ODD, "--out", folder / f"m{ODD}")
    assert done.returncode == 0 and done.stdout == f"{folder}/m{ODD}\n", done.stderr
    return folder


def refused(done, sentence):
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.splitlines()[-1] == f"error: {sentence}"
    return True


def test_a_closed_standard_input_is_told(home):
    sentence = "standard input: closed. Give a file with texts, or direct one to it."
    assert refused(run("predict", home / f"m{ODD}", closed=[0]), sentence)
    assert refused(run("explain", home / f"m{ODD}", "--text", "-", closed=[0]), sentence)
    assert run("predict", home / f"m{ODD}", home / ODD / "train.jsonl", closed=[0]).returncode == 0


@pytest.mark.parametrize(
    "words",
    [["predict", "{m}", "{d}/train.jsonl"], ["labels", "list", "{m}"], ["data", "stats", "{d}", "--json"], ["recipes"]],
)
def test_an_answer_that_a_closed_standard_output_loses_is_an_error(home, words):
    words = [word.format(m=home / f"m{ODD}", d=home / ODD) for word in words]
    assert refused(run(*words, closed=[1]), "standard output: closed. Direct it to a file, or to /dev/null.")


def test_a_mistake_is_told_with_standard_output_closed():
    assert refused(run("nosuch", closed=[1]), "No such command 'nosuch'. See `treetop --help`.")


def test_work_is_done_and_saved_with_all_streams_closed(home, tmp_path):
    """Also where no file may take the number of a stream, into which somebody else could write."""
    whole = home / f"m{ODD}"
    done = run("fit", "neighbours", home / ODD, "--out", tmp_path / "m", closed=[0, 1, 2])
    assert (
        done.returncode == 0 and (tmp_path / "m/manifest.json").read_bytes() == (whole / "manifest.json").read_bytes()
    )
    assert run("verify", tmp_path / "m", closed=[1]).returncode == 0
    words = ("predict", whole, home / ODD / "train.jsonl")
    assert run(*words, "--out", tmp_path / "p.jsonl", closed=[0, 1, 2]).returncode == 0
    assert (tmp_path / "p.jsonl").read_text(encoding="utf-8") == run(*words).stdout
    assert run("predict", tmp_path / "absent", closed=[0, 1, 2]).returncode == 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_in_a_narrow_encoding_loses_nothing(home, encoding):
    words = ("predict", home / f"m{ODD}", home / ODD / "train.jsonl")
    narrow, wide = run(*words, encoding=encoding), run(*words)
    assert narrow.returncode == 0 and NAME in wide.stdout and NAME not in narrow.stdout
    assert [*map(json.loads, narrow.stdout.splitlines())] == [*map(json.loads, wide.stdout.splitlines())]
    listed = run("labels", "list", home / f"m{ODD}", "--find", "L00", encoding=encoding).stdout
    assert json.loads('"{}"'.format(listed.split("\t")[-3])) == NAME
    drawn = run("explain", home / f"m{ODD}", "--label", "L00", "--data", home / ODD, encoding=encoding)
    assert drawn.returncode == 0, drawn.stderr


def test_folders_whose_names_are_no_text_work_everywhere(home, tmp_path):
    data, model, out = home / ODD, home / f"m{ODD}", tmp_path / f"o{ODD}"
    for words in (
        ["verify", model],
        ["fit", "neighbours", data, "--out", model, "--resume"],
        ["evaluate", model, data, "--split", "train", "--json", "--report", out / "evaluated"],
        ["compare", data, model, "--split", "train", "--json", "--report", out / "compared"],
        ["data", "stats", data, "--json"],
        ["data", "convert", data, out / "converted"],
        ["predict", model, data / "train.jsonl", "--out", tmp_path / ODD],
    ):
        done = run(*words)
        assert done.returncode == 0, done.stderr
        assert "--json" not in words or json.loads(done.stdout.encode())  # so it is UTF-8
    assert json.loads((model / "manifest.json").read_bytes())["data"]["name"] == "d\\xff"
    sentence = f"{tmp_path}/x/d\\udcff: no such model folder. Give the folder that `treetop fit --out` wrote."
    assert refused(run("predict", tmp_path / "x" / ODD), sentence)


def test_arguments_are_utf_8_in_any_locale(home, tmp_path):
    """Without UTF-8 mode the C locale has no é."""
    subprocess.run(["cp", "-r", home / f"m{ODD}", tmp_path / "é"], check=True)
    env = {**ENV, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    call = [sys.executable, "-m", "treetop", "labels", "rename", tmp_path / "é", "L01", "née"]
    done = subprocess.run(call, capture_output=True, text=True, env=env)
    assert done.returncode == 0 and done.stdout == f"{tmp_path}/é: 1 label renamed (change 1)\n", done.stderr
    assert "L01\tnée\t" in run("labels", "list", tmp_path / "é").stdout
    sentence = r"'n\udcffe': contains bytes that are not UTF-8. Type it again."
    assert refused(run("labels", "rename", tmp_path / "é", "L01", os.fsdecode(b"n\xffe")), sentence)


def test_too_few_open_files_are_told(home, tmp_path):
    sentence = "too many open files. Raise the limit (ulimit -n), or end other programs."
    assert refused(run("predict", home / f"m{ODD}", home / ODD / "train.jsonl", files=4), sentence)
    assert run("fit", "neighbours", home / ODD, "--out", tmp_path / "m", files=4).returncode == 2
    assert not [*tmp_path.iterdir()]


def raised(error, within=None):
    try:
        try:
            raise within or ValueError
        except Exception:
            raise error  # noqa: B904 - as a library does it
    except Exception as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), faults.MEMORY),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), faults.MEMORY),
        (ImportError("libx.so: failed to map segment from shared object"), faults.MEMORY),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), faults.MEMORY),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), faults.MEMORY),
        (RuntimeError("can't start new thread"), faults.THREADS),
        (OSError(errno.EMFILE, "Too many open files"), faults.FILES),
        (ImportError("libx.so: cannot open shared object file: Too many open files"), faults.FILES),
        (raised(KeyError("numba"), MemoryError()), faults.MEMORY),
        (
            FileNotFoundError(errno.ENOENT, "No such file", "x"),
            "x: No such file. Check the path, its permissions and the",
        ),
        (OSError(errno.EBADF, "Bad file descriptor"), faults.STREAM),
        (KeyError("x"), None),
        (raised(KeyError("x"), FileNotFoundError(errno.ENOENT, "No such file", "x")), None),
        (RuntimeError("shapes differ"), None),
    ],
)
def test_what_the_system_refuses_is_a_sentence_and_a_fault_of_the_program_is_not(error, sentence):
    said = faults.sentence(error)
    assert said is None if sentence is None else said.startswith(sentence)


def test_a_full_or_wrongly_opened_output_is_told(home):
    call = [sys.executable, "-m", "treetop", "labels", "list", str(home / f"m{ODD}")]
    for place, mode, sentence in (("/dev/full", "w", "No space left on device"), ("/dev/null", "r", faults.STREAM)):
        if not Path(place).exists():
            pytest.skip(f"no {place}")
        with Path(place).open(mode) as out:
            done = subprocess.run(call, stdout=out, stderr=subprocess.PIPE, text=True, env=ENV)
        assert done.returncode == 2 and sentence in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_only_the_first_process_of_torchrun_says_what_is_done(tmp_path):
    words = ["-c", "from treetop.cli.streams import confirm; confirm('saved')"]
    said = {
        rank: subprocess.run([sys.executable, *words], env={**ENV, **rank_of}, capture_output=True, text=True).stdout
        for rank, rank_of in {"alone": {}, "first": {"RANK": "0"}, "second": {"RANK": "1"}}.items()
    }
    assert said == {"alone": "saved\n", "first": "saved\n", "second": ""}
    done = subprocess.run(
        [sys.executable, "-m", "treetop", "data", "stats", "nowhere"], env={**ENV, "RANK": "1"}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.startswith("error: ")  # a mistake is told by every process
