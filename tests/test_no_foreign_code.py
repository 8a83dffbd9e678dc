"""Nothing that is fetched or read is run: what the source may call, and what the commands do while they work."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import toy
import treetop

ROOT = Path(treetop.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
RUNS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "torch.load", "yaml.load", "pickle.load"}
PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle"}
NETWORK = {
    "aiohttp",
    "ftplib",
    "httpx",
    "poplib",
    "requests",
    "smtplib",
    "socketserver",
    "telnetlib",
    "urllib3",
    "xmlrpc",
}
NETWORK |= {"http.client", "http.server", "urllib.request", "webbrowser"}
# Each with its reason; a new one needs one, too.
MAY = {
    "core/executor/ray.py": {"pickle", "socket", "ray"},  # sizes of what goes to one's own cluster; whether it answers
    "kernels/runtime/cache.py": {"pickle"},  # kernels that this user compiled, from files only this user can write
    "hub.py": {"httpx"},  # the errors of the hub's client
    "serve/sockets.py": {"socket"},  # the server listens
    "serve/server.py": {"socket"},
    "serve/worker.py": {"socket"},
    "core/provenance.py": {"subprocess"},  # git, for the commit in records
    "bench/cells.py": {"subprocess"},  # trainings in processes of their own
}
WATCHED = PICKLES | NETWORK | {"socket", "subprocess"}
HUB = {"features/encoder/hub.py", "hub.py"}  # who may ask a hub


def modules(tree):
    """Modules that a file imports, by statement or by name (`import_module`, `extra`)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {"import_module", "extra"}:
            yield from (first.value for first in node.args[:1] if isinstance(first, ast.Constant))


def bad_calls(tree):
    """Calls that run text, unpickle, or trust what comes with data."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        function = ast.unparse(call.func)
        options = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        trusts = any(options.get(name, "False") != "False" for name in ("trust_remote_code", "shell", "allow_pickle"))
        loads = function in {"np.load", "numpy.load"} and "allow_pickle" not in options
        builds = function.endswith(".from_pretrained") and not {"trust_remote_code", "use_safetensors"} <= {*options}
        if function in RUNS or trusts or loads or builds:
            yield f"{call.lineno}: {function}"


def bad_imports(tree, place):
    """Modules for pickles, programs and the network that this file has no reason to use."""
    named = {*modules(tree)}
    used = {watched for module in named for watched in WATCHED if f"{module}.".startswith(f"{watched}.")}
    yield from sorted(used - MAY.get(place, set()))
    if place not in HUB:
        yield from sorted(module for module in named if module.startswith("huggingface_hub"))


def test_no_file_runs_text_pickles_or_reaches_the_network_unless_it_says_why():
    found = []
    for file in FILES:
        tree, place = ast.parse(file.read_text(encoding="utf-8")), file.relative_to(ROOT).as_posix()
        found += [f"{place}: {what}" for what in (*bad_calls(tree), *bad_imports(tree, place))]
    assert found == []
    assert {*MAY, *HUB} <= {file.relative_to(ROOT).as_posix() for file in FILES}


@pytest.mark.parametrize(
    "line",
    [
        "eval(text)",
        "torch.load(file)",
        "yaml.load(file)",
        "np.load(file)",
        "np.load(file, allow_pickle=True)",
        "AutoModel.from_pretrained(name, use_safetensors=True, trust_remote_code=True)",
        "AutoModel.from_pretrained(name)",
        "run(words, shell=True)",
        "import pickle",
        "from urllib.request import urlopen",
        "from urllib import request",
        "extra('requests', 'hub')",
        "import_module('huggingface_hub.utils')",
    ],
)
def test_the_check_sees_what_it_looks_for(line):
    tree = ast.parse(line)
    assert [*bad_calls(tree), *bad_imports(tree, "model/model.py")]


WATCH = """
import os, sys
seen = []
def watch(event, values):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind", "subprocess.Popen", "os.system", "os.exec"):
        if values[0] != "uname":  # by Python itself, which asks for the processor
            seen.append((event, str(values)[:200]))
sys.addaudithook(watch)
import treetop
from treetop.cli.start import main
from treetop.core.dataset import Dataset
encoder = sys.argv[1]
data = Dataset.read("data.jsonl")
quick = {"encoder": {"model": encoder, "max_length": 16}, "train": {"epochs": 1.0, "batch_size": 16}}
treetop.fit("xr_linear", data, out="linear")
if encoder:
    treetop.fit("lightxml", data, settings=quick, out="network", calibrate=False)
for folder in ("linear", "network"):
    if os.path.isdir(folder):
        model = treetop.load(folder, check="full")
        model.predict("cat and dogs", k=3), model.explain("cat and dogs", k=1), model.evaluate(data)
sys.argv[1:] = ["evaluate", "linear", "data.jsonl", "--report", "report"]
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended
print(seen, file=sys.stderr)
assert seen == [], seen
"""


def test_training_and_answering_open_no_connection_and_start_no_program(tmp_path, encoder):
    toy.write_rows(toy.dataset(), tmp_path / "data.jsonl")
    done = subprocess.run(
        [sys.executable, "-c", WATCH, encoder], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
