"""What systems other than Linux lack is simulated: the package, the linear path and a saved model do without it."""

import subprocess
import sys

BARE = """
import os, sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("getloadavg", "posix_fallocate", "sched_getaffinity", "sysconf"):
    delattr(os, name)
"""
FIT = """
import treetop
texts = ["a small cat", "a big dog", "a wolf in the wood", "cat and dog"]
labels = [["cat"], ["dog"], ["wolf"], ["cat", "dog"]]
treetop.fit("xr_linear", texts * 10, labels * 10, out="model")
model = treetop.load("model", check="full")
assert model.predict("my cat", k=1)[0].id == "cat"
model.rename_labels({"cat": "cats"}).save("renamed")
from treetop.core.provenance import append, provenance
append(__import__("pathlib").Path("record.jsonl"), provenance(seed=1))
"""
COMMAND = "from treetop.cli.start import main; sys.argv[1:] = {words}; main()"


def ended(code, folder):
    return subprocess.run([sys.executable, "-c", BARE + code], capture_output=True, text=True, cwd=folder)


def test_the_linear_path_needs_no_unix(tmp_path):
    done = ended(FIT, tmp_path)
    assert done.returncode == 0, done.stderr
    assert {file.name for file in tmp_path.iterdir()} >= {"model", "record.jsonl"}
    done = ended(COMMAND.format(words=["verify", "model"]), tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "rows.csv").write_text("text,labels\na cat,cat\na dog,dog\n" * 40)
    done = ended(COMMAND.format(words=["evaluate", "model", "rows.csv"]), tmp_path)
    assert done.returncode == 0, done.stderr
    done = ended(COMMAND.format(words=["advise", "rows.csv", "--budget", "time=1s"]), tmp_path)
    assert "Traceback" not in done.stderr, done.stderr


def test_the_server_says_that_it_does(tmp_path):
    done = ended(COMMAND.format(words=["serve", "model"]), tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: treetop serve: needs Linux or macOS, not this system. Run it in a Linux container or in WSL.\n"
    )
