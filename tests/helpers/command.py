"""The `treetop` command as a process of its own, without each one loading its modules and compiled kernels anew.

A server loads them once and forks a child for every call. The child gets its own streams and folder and ends as a
process started from a shell does, with a traceback and exit code 1 where an error gets through. What a command loads,
and that it finds everything without help, is seen by the tests that start a real one.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ENV = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
SECONDS = 120  # a command that takes longer is ended
LOADED = ("scipy.sparse", "yaml", "rich.table", "rich.console", "typer.rich_utils", "pydantic", "treetop.cli.main")
LOADED += tuple(f"treetop.recipes.{name}" for name in ("popular", "neighbours", "xr_linear"))
LOADED += (
    "treetop.data.read",
    "treetop.data.write",
    "treetop.evaluate.report",
    "treetop.model.folder",
    "treetop.model.labels",
)


def run(*words, stdin="", cwd=None, closed=(), encoding="utf-8", files=None):
    """What `subprocess.run` would give for `treetop words...`: returncode, stdout, stderr.

    `closed`: numbers of streams the shell closed (>&-); `encoding`: PYTHONIOENCODING; `files`: ulimit -n.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "0").write_text(stdin)
        call = {"words": list(map(str, words)), "cwd": str(cwd or Path.cwd()), "streams": folder}
        call |= {"closed": closed, "encoding": encoding, "files": files}
        server = _server()
        server.stdin.write(json.dumps(call) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        out, err = (Path(folder, name).read_bytes().decode(encoding, "surrogateescape") for name in "12")
        return subprocess.CompletedProcess(words, code, out, err)


@functools.cache
def _server():
    here = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    made = subprocess.Popen(
        [sys.executable, "-c", "import command; command.serve()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**ENV, "PYTHONPATH": os.pathsep.join(here)},
    )  # fmt: skip
    atexit.register(_end, made)
    return made


def _end(server):
    server.stdin.close()  # no more calls: it ends by itself
    server.stdout.close()
    server.wait()


def serve():
    """Fork a child for each line of standard input and answer with its exit code."""
    for name in LOADED:
        importlib.import_module(name)
    _use_kernels()
    gc.freeze()  # pages a child does not touch are not copied
    sys.dont_write_bytecode = False  # else every child would compile treetop's sources
    for line in sys.stdin:
        if child := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            sys.stdout.write(f"{code}\n")
            sys.stdout.flush()
        else:
            _become(**json.loads(line))


def _use_kernels():
    """Load the code of the kernels that most commands call, in one thread, as no other may live at a fork."""
    import toy
    import treetop
    from treetop.kernels.runtime import threads

    with threads.limited(1), tempfile.TemporaryDirectory() as folder:
        treetop.fit("neighbours", toy.dataset(), out=f"{folder}/m")
        treetop.load(f"{folder}/m").evaluate(toy.dataset(1), resamples=2)


def _become(words, cwd, streams, closed, encoding, files):
    signal.alarm(SECONDS)
    for number, kind in enumerate((os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)):
        os.dup2(os.open(f"{streams}/{number}", kind), number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding=encoding, errors=stream.errors)
    for number in closed:
        os.close(number)
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)  # as Python does when it starts
    os.chdir(cwd)
    sys.argv = ["treetop", *words]
    from treetop.cli.main import main

    if files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    try:
        main()  # always exits
    except SystemExit as end:
        _exit(end.code)
        raise


def _exit(code):
    """End as Python does, but without taking apart the modules that were loaded before the fork, which costs more."""
    if not isinstance(code, int) or None in (sys.stdout, sys.stderr):
        return
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return  # Python tells
    os._exit(code)
