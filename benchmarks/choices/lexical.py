"""What `lexical` finds with few and many training texts, beside `xr_linear`, blended with it, and beside Annif's MLLM.

    python benchmarks/choices/lexical.py quality ../shared/data/finna-yso-en-25k --rows 400 --recipe lexical --record
    python benchmarks/choices/lexical.py mllm ../shared/data/finna-yso-en-25k --rows 400 --python ENV/bin/python
    python benchmarks/choices/lexical.py quality ../shared/data/finna-yso-en-25k --rows 400 --recipe lexical --on-test
    python benchmarks/choices/lexical.py speed --labels 1000000 --record

Training rows and 5,000 others to test on are drawn from train (`--on-test`: from test); texts that are a label's own
are not tested there, and pairs in the filter of the data do not count. `rare` is the recall, among the best 5, of
labels that at most 5 of the training rows carry. MLLM is trained and asked through Annif's own command, its rankings
are scored here. `speed` makes names of two to four words for so many labels.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import treetop
from tools.annif import prepare
from treetop.core import provenance
from treetop.core.config import merged
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts
from treetop.core.types import Ranking
from treetop.data.formats.skos import from_uri
from treetop.evaluate.score import score

RECORD = Path(__file__).parents[1] / "results/lexical-choice.jsonl"
TESTED, RARE = 5000, 5
MLLM = "[mllm]\nname=mllm\nlanguage=en\nbackend=mllm\nanalyzer=snowball(english)\nlimit=100\nvocab=labels\n"


def split(path: str, rows: int, seed: int, on_test: bool = False) -> tuple[Dataset, Dataset]:
    """Training rows and rows to test on, both of train, or the latter of test."""
    data = Dataset.read(path)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(data.documents))
    if on_test:
        test = Dataset.read(path, "test").align(data.labels)
        chosen = np.random.default_rng(0).permutation(np.flatnonzero(test.documents))[:TESTED]
        return data.take(order[: rows or len(order)]), test.take(np.sort(chosen))
    tested = min(TESTED, len(order) // 5)
    named = {*data.labels.names, *data.labels.texts}
    test = [row for row in order[-tested:].tolist() if data.texts[row] not in named]
    return data.take(order[: min(rows or len(order), len(order) - tested)]), data.take(np.array(test))


def figures(ranking: Ranking, train: Dataset, test: Dataset) -> dict[str, float]:
    """Scores in percent, and the recall of labels with few training texts."""
    counts = train.label_counts
    found = score(ranking, test, counts, len(train), resamples=0)
    rare = np.repeat(np.arange(len(test)), np.diff(test.Y.indptr)), test.Y.indices
    asked = {(r, c) for r, c in zip(*(part.tolist() for part in rare), strict=True) if 1 <= counts[c] <= RARE}
    if test.ignored is not None:
        place = np.repeat(np.arange(len(ranking)), np.diff(ranking.indptr))
        ranking = ranking.where(np.asarray(test.ignored[place, ranking.ids]).ravel() == 0)
    top = ranking.top(5)
    rows = np.repeat(np.arange(len(top)), np.diff(top.indptr)).tolist()
    hits = sum(pair in asked for pair in zip(rows, top.ids.tolist(), strict=True))
    names = ("P@1", "P@5", "PSP@5", "nDCG@10")
    return {**{name: round(found[name], 2) for name in names}, "rare R@5": round(100 * hits / max(len(asked), 1), 2)}


def quality(options: argparse.Namespace) -> dict:
    """A recipe trained on some rows of train, tested on others."""
    train, test = split(options.data, options.rows, options.seed, options.on_test)
    settings: dict = {}
    for text in options.set or []:
        settings = merged(settings, json.loads(text))
    start = time.perf_counter()
    model = treetop.fit(options.recipe, train, settings=settings, seed=options.seed)
    seconds = time.perf_counter() - start
    made = figures(model.rank_dataset(test, 10 + test.most_filtered), train, test)
    name = f"{options.recipe} {train.name} {len(train)}" + (f" {json.dumps(settings)}" if settings else "")
    name += " test" if options.on_test else ""
    return {
        "name": name,
        "data": train.name,
        "rows": len(train),
        "tested": len(test),
        "fit_s": round(seconds, 1),
        **made,
    }


def mllm(options: argparse.Namespace) -> dict:
    """Annif's MLLM on the same rows."""
    train, test = split(options.data, options.rows, options.seed, options.on_test)
    with tempfile.TemporaryDirectory() as folder:
        annif = prepare.Annif(Path(options.python), Path(folder))
        prepare.write_files(annif.work, test)
        (annif.work / "train.tsv").rename(annif.work / "test.tsv")
        prepare.write_files(annif.work, train)
        (annif.work / "projects.cfg").write_text(MLLM, encoding="utf-8")
        punkt = annif.work / "nltk/tokenizers/punkt_tab/english"
        annif.call("python", "-c", prepare.TOKENIZER, "test.tsv", str(punkt))
        annif.call("annif", "load-vocab", "--force", "--language", "en", "labels", "labels.tsv")
        annif.call("annif", "train", "mllm", "train.tsv")
        annif.call("annif", "index", "mllm", "test.tsv", "--limit", "10", "--threshold", "0.0")
        lines = (annif.work / "test.annif.jsonl").read_text(encoding="utf-8").splitlines()
    answers = [json.loads(line)["results"] for line in lines]
    if len(answers) != len(test):
        raise SystemExit(f"annif answered {len(answers)} of {len(test)} texts")
    ends = np.cumsum([0, *map(len, answers)])
    ids = [test.labels.columns[from_uri(each["uri"])] for row in answers for each in row]
    values = np.array([each["score"] for row in answers for each in row], np.float32)
    made = figures(Ranking.sorted(ends, np.array(ids, np.int32), values), train, test)
    show = [str(annif.python), "-c", "from importlib.metadata import version; print(version('annif'))"]
    version = subprocess.run(show, capture_output=True, text=True, check=True).stdout.strip()
    name = f"mllm {train.name} {len(train)}" + (" test" if options.on_test else "")
    return {"name": name, "data": train.name, "rows": len(train), "tested": len(test), "annif": version, **made}


def speed(options: argparse.Namespace) -> dict:
    """Milliseconds a title and memory with very many labels, in a process that only opens the model and predicts."""
    rng = np.random.default_rng(options.seed)
    words = np.array([f"w{i:x}" for i in range(200_000)])
    zipf = 1.0 / (np.arange(len(words)) + 10.0)
    edges = np.cumsum(zipf / zipf.sum())

    def draw(n: int) -> list[str]:
        return words[np.minimum(np.searchsorted(edges, rng.random(n)), len(words) - 1)].tolist()

    names = [" ".join(draw(2 + i % 3)) for i in range(options.labels)]
    gold = rng.integers(0, options.labels, 1000)
    texts = Texts.of([f"{' '.join(draw(5))} {names[g]} {' '.join(draw(5))}" for g in gold.tolist()])
    from scipy import sparse

    Y = sparse.csr_matrix((np.ones(1000, np.float32), gold, np.arange(1001)), (1000, options.labels))
    labels = LabelSet.of([str(i) for i in range(options.labels)], names)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        treetop.fit("lexical", Dataset(texts, Y, labels, name="made"), out=Path(folder) / "m", calibrate=False)
        fit = time.perf_counter() - start
        (Path(folder) / "texts").write_text("\n".join(texts), encoding="utf-8")
        asked = [sys.executable, __file__, "asked", folder]
        subprocess.run(asked, capture_output=True, check=True)  # compiles what it needs, as `treetop warmup` does
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
    return {
        "name": f"speed {options.labels}",
        "labels": options.labels,
        "fit_s": round(fit, 1),
        **json.loads(done.stdout),
    }


def peak() -> float:
    """The most memory this process has had, in megabytes; `ru_maxrss` would count its parent's."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def asked(folder: str) -> None:
    """Open the model and predict one by one and together; prints times and memory."""
    texts = (Path(folder) / "texts").read_text(encoding="utf-8").split("\n")
    before = peak()
    start = time.perf_counter()
    model = treetop.load(Path(folder) / "m")
    model.predict(texts[0])
    opened = time.perf_counter() - start
    start, used = time.perf_counter(), time.process_time()
    for text in texts[:300]:
        model.predict(text)
    single, single_cpu = (time.perf_counter() - start) / 300, (time.process_time() - used) / 300
    start = time.perf_counter()
    model.rank(texts, 10)
    batch = (time.perf_counter() - start) / len(texts)
    figures_ = {"open_s": opened, "single_ms": 1e3 * single, "single_cpu_ms": 1e3 * single_cpu, "batch_ms": 1e3 * batch}
    memory = {"peak_mb": peak(), "imports_mb": before}
    print(json.dumps({key: round(value, 3) for key, value in (figures_ | memory).items()}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["quality", "mllm", "speed", "asked"])
    parser.add_argument("data", nargs="?")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--recipe", default="lexical")
    parser.add_argument("--set", action="append")
    parser.add_argument("--python")
    parser.add_argument("--labels", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--on-test", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.what == "asked":
        return asked(options.data)
    made = {"quality": quality, "mllm": mllm, "speed": speed}[options.what](options)
    print(json.dumps(made), flush=True)
    if options.record:
        root = Path(__file__).parents[2]
        provenance.append(RECORD, {**provenance.provenance(seed=options.seed, root=root), **made})
    return None


if __name__ == "__main__":
    main()
