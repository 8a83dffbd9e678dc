"""Networks trained by torchrun in two network namespaces, one process each (Gloo), beside one process.

    sudo python benchmarks/cluster/networks.py [--recipes renee unidec lightxml cascadexml] [--seeds 3] [--table 2e6]

2,000 rows of WordNet with the labels they carry, and a small random encoder whose tokenizer knows the rows' words. One
process trains with several seeds, which shows the noise; two processes train with the first of them. Peak memory is
that of each process. Last, the memory that `renee`'s table of `--table` labels takes of each process, alone. Dropout is
on, and processes draw their own. Adds a record per recipe to benchmarks/results/cluster.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from local import RESULTS, ROOT, children_of, treetop
from namespaces import ADDRESSES, NAMES, cable, inside

from treetop.core.dataset import Dataset
from treetop.core.provenance import append, provenance, versions
from treetop.model import load

sys.path.insert(0, str(ROOT / "tests" / "helpers"))
from toy_encoder import SPECIAL, write_encoder, write_tokenizer

ROWS, TEST, WIDTH = 2000, 2000, 64
SETTINGS = (
    "encoder.max_length=32", "train.batch_size=64", "train.epochs=8.0", "encoder_optimizer.lr=0.001",
    "head_optimizer.lr=0.01",
)  # fmt: skip


def encoder_for(texts: list[str], folder: Path) -> Path:
    """A random encoder of two layers for the most frequent words of some texts."""
    counts = Counter(word for text in texts for word in text.lower().split())
    words = [*SPECIAL, *(word for word, _ in counts.most_common(8000))]
    write_encoder(folder, vocab_size=len(words), hidden_size=WIDTH, num_attention_heads=4, intermediate_size=128)
    write_tokenizer(folder, words=words)
    return folder


def peaks(started: list[subprocess.Popen[bytes]]) -> list[float]:
    """Wait for commands; for each the megabytes at the peak of the largest process below it, itself included."""
    most = [0.0] * len(started)
    while any(process.poll() is None for process in started):
        for k, process in enumerate(started):
            known = [process.pid]
            for pid in known:
                known += children_of(pid)
                with contextlib.suppress(OSError, IndexError):
                    status = Path(f"/proc/{pid}/status").read_text()
                    most[k] = max(most[k], int(status.split("VmHWM:")[1].split()[0]) / 1024)
        time.sleep(0.2)
    if any(process.returncode for process in started):
        raise SystemExit(f"training ended with {[process.returncode for process in started]}")
    return most


def fit(words: list[str], *, processes: int) -> list[float]:
    """Train with one process, or with one in each namespace; megabytes at the peak of each."""
    if processes == 1:
        return peaks([subprocess.Popen(treetop(*words), cwd=ROOT)])
    commands = [
        inside(
            name, "env", f"GLOO_SOCKET_IFNAME={name}", sys.executable, "-m", "torch.distributed.run", "--nnodes", "2",
            "--nproc-per-node", "1", "--node-rank", str(rank), "--master-addr", ADDRESSES[0], "--master-port", "29511",
            "-m", *treetop(*words)[2:],
        )
        for rank, name in enumerate(NAMES)
    ]  # fmt: skip
    return peaks([subprocess.Popen(command, cwd=ROOT) for command in commands])


def command(recipe: str, data: Path, out: Path, settings: list[str], seed: int) -> list[str]:
    words = ["fit", recipe, str(data), "--out", str(out), "--device", "cpu", "--no-calibrate", "--overwrite"]
    return [*words, "--seed", str(seed), *(word for setting in settings for word in ("--set", setting))]


def compared(recipe: str, work: Path, seeds: int, test: Dataset) -> dict[str, Any]:
    """Scores of one process with each seed, and of two processes with the first."""
    settings, out = [f"encoder.model={work / 'encoder'}", *SETTINGS], work / "model"
    scores, memory = [], []
    for seed, processes in [*((seed, 1) for seed in range(seeds)), (0, 2)]:
        started = time.monotonic()
        memory.append(fit(command(recipe, work / "data", out, settings, seed), processes=processes))
        found = load(out).evaluate(test)
        scores.append({name: round(found[name], 2) for name in ("P@1", "P@5")})
        print(
            recipe, f"seed {seed}, processes {processes}", scores[-1], f"{time.monotonic() - started:.0f} s", flush=True
        )
    noise = {
        name: round(max(s[name] for s in scores[:-1]) - min(s[name] for s in scores[:-1]), 2) for name in scores[0]
    }
    return {
        "one": scores[:-1],
        "two": scores[-1],
        "noise": noise,
        "memory_mb_one": memory[0],
        "memory_mb_two": memory[-1],
    }


TABLE = """
import sys, torch
from treetop.network.vectors.full import FullTable
from treetop.tensors.devices import World
from treetop.train.optim import AdamConfig

def held():
    return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0]) / 1024

torch.set_num_threads(1)
world, before = World.join(torch.device("cpu")), held()
table = FullTable(int(sys.argv[1]), int(sys.argv[2]), AdamConfig(), torch.device("cpu"), world=world)
for tensor in table.state().values():
    tensor.fill_(1.0)
print(held() - before)
"""


def table(n_labels: int) -> dict[str, Any]:
    """Megabytes that a table of all labels with its moments takes of one process, and of each of two."""
    words = ["-c", TABLE, str(n_labels), str(WIDTH)]
    one = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    place = {"MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29512", "WORLD_SIZE": "2"}
    started = [
        subprocess.Popen(
            inside(
                name, "env", f"GLOO_SOCKET_IFNAME={name}", f"RANK={rank}", f"LOCAL_RANK={rank}",
                *(f"{key}={value}" for key, value in place.items()), sys.executable, *words,
            ),
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )
        for rank, name in enumerate(NAMES)
    ]  # fmt: skip
    two = [float(process.communicate()[0]) for process in started]
    return {"labels": n_labels, "width": WIDTH, "table_mb": n_labels * WIDTH * 12 / 1e6, "memory_mb_one": [float(one)],
            "memory_mb_two": two}  # fmt: skip


def write_data(train: Dataset, folder: Path) -> None:
    """The rows, and the labels that one of them carries."""
    folder.mkdir()
    used, ids = np.unique(train.Y.indices), list(train.labels.ids)
    with (folder / "labels.jsonl").open("w") as out:
        for column in used.tolist():
            label = {"id": ids[column], "name": train.labels.names[column], "text": train.labels.texts[column]}
            out.write(json.dumps(label) + "\n")
    with (folder / "train.jsonl").open("w") as out:
        for row, text in enumerate(train.texts):
            columns = train.Y.indices[train.Y.indptr[row] : train.Y.indptr[row + 1]].tolist()
            out.write(json.dumps({"text": text, "labels": [ids[column] for column in columns]}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="*", default=["renee", "unidec", "lightxml", "cascadexml"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--table", type=float, default=2e6)
    options = parser.parse_args()
    train, rng = Dataset.read("wordnet", "train"), np.random.default_rng(0)
    test = Dataset.read("wordnet", "test").align(train.labels)
    train = train.take(np.sort(rng.permutation(len(train))[:ROWS]))
    test = test.take(np.sort(rng.permutation(len(test))[:TEST]))
    with tempfile.TemporaryDirectory() as folder, cable():
        work = Path(folder)
        write_data(train, work / "data")
        encoder_for(list(train.texts), work / "encoder")
        jobs = [(f"networks {recipe}", lambda recipe=recipe: compared(recipe, work, options.seeds, test))
                for recipe in options.recipes]  # fmt: skip
        jobs += [("networks table", lambda: table(int(options.table)))] if options.table else []
        for name, job in jobs:
            record = {**provenance(seed=0), "versions": versions(), "name": name, "processes": 2, **job()}
            append(RESULTS, record)
            print(
                {key: record[key] for key in record if key.startswith(("memory", "noise", "two", "table"))}, flush=True
            )


if __name__ == "__main__":
    main()
