"""Ctrl-C and SIGTERM while a kernel runs, which Python cannot interrupt."""

import signal
import subprocess
import sys
import time

import pytest

import toy
import treetop
from command import ENV
from treetop.data.write import write

# A computation that lets other threads run and notices no signal, in place of a command's own.
CODE = """
import hashlib, importlib, sys

def stuck(*_, **__):
    print("computing", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 2**31 - 1)

module, _, name = sys.argv.pop(1).rpartition(":")
owner, _, attribute = name.rpartition(".")
place = importlib.import_module(module)
setattr(getattr(place, owner) if owner else place, attribute, stuck)
from treetop.cli.start import main
main()
"""
COMMANDS = {
    "fit": ("treetop.training:Plan.fit", "fit popular {data} --out {out}"),
    "predict": ("treetop.cli.predict:answers_of", "predict {model} {data}/train.jsonl --out {out}"),
    "evaluate": ("treetop.model:Model.rank_dataset", "evaluate {model} {data}"),
    "convert": ("treetop.data.write:_writer", "data convert {data} {out}"),
    "advise": ("treetop.assemble.advise.trials:Bench.run", "advise {data} --candidates popular,neighbours"),
    "tune": ("treetop.assemble.advise.trials:Bench.run", "tune neighbours {data}"),
    "blend": ("treetop.assemble.blend:blend", "blend {model} {model} --out {out}"),
    "warmup": ("treetop.cli.warmup:_use", "warmup"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    data = toy.dataset(n=400)
    write({"train": data, "test": toy.dataset(seed=3, n=600)}, folder / "data", "jsonl")
    treetop.fit("popular", data, out=folder / "model", calibrate=False)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_ends_a_command_whatever_it_computes(home, tmp_path, name):
    place, words = COMMANDS[name]
    number = signal.SIGINT if name in {"fit", "evaluate", "tune"} else signal.SIGTERM
    words = words.format(data=home / "data", model=home / "model", out=tmp_path / "out").split()
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, place, *words],
        env={**ENV, "TMPDIR": str(tmp_path)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout.readline() == "computing\n", process.stderr.read()
    process.send_signal(number)
    started = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - started < 2.0
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert err.splitlines()[-1] == "interrupted; temporary files were removed. Run the command again"
    assert err.count("interrupted") == 1 and "Traceback" not in err
    assert [file.name for file in tmp_path.iterdir()] == (["out.work"] if name == "fit" else [])


def test_signals_count_from_the_first_import_on(home):
    """Before the commands are imported there is no traceback either."""
    code = "import signal, os\nfrom treetop.cli import start, ending\n"
    code += "import sys\nclass Finder:\n    def find_spec(self, name, *_):\n"
    code += "        if name == 'treetop.cli.main': os.kill(os.getpid(), signal.SIGTERM)\n"
    code += "sys.meta_path.insert(0, Finder())\nstart.main()"
    done = subprocess.run([sys.executable, "-c", code], env=ENV, capture_output=True, text=True, timeout=60)
    assert done.returncode == 143 and done.stderr.startswith("interrupted; ") and "Traceback" not in done.stderr
