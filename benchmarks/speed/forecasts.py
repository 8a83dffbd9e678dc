"""Forecasts of encoders on a CPU beside what training took: time, peak memory, size of the model.

    python benchmarks/speed/forecasts.py DATA [--cells lightxml:cpu,wordnet-taxonomy,4000 ...] --record FILE
    python benchmarks/speed/forecasts.py DATA --today FILE    # trains nothing: records beside what is forecast now

DATA is a folder of data sets. Each cell is a process of its own (`treetop fit` without held-out documents) with kernels
compiled beforehand; the seconds include what torch compiles. Run it on a quiet machine: time is what a clock shows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from treetop.core.provenance import provenance, versions

ROOT = Path(__file__).resolve().parents[2]
CELLS = (
    "lightxml:cpu,wordnet-taxonomy,8000",
    "lightxml:cpu,finna-yso-en-25k,8000",
    "lightxml:cpu,reuters21578-modapte,1500",
    "lightxml:cpu,finna-yso-en-25k,1000",
    "unidec:cpu,wordnet-taxonomy,8000",
    "unidec:cpu,finna-yso-en-25k,4000",
    "unidec:cpu,metamath-premises-30k,4000",
    "renee,wordnet-taxonomy,1000",
    "renee,finna-yso-en-25k,600",
)
ROWS = """
import json, sys, time
import numpy as np
from pathlib import Path
import treetop
from treetop.training import plan
recipe, preset, folder, rows, out, *settings = sys.argv[1:]
data = treetop.Dataset.read(folder)
documents = np.random.default_rng(0).permutation(np.flatnonzero(data.documents))[: int(rows) or None]
data = data.take(np.sort(documents))
"""
FORECAST = (
    ROWS
    + """
needs = plan(recipe, preset=preset, settings=settings).forecast(data, device="cpu")
print(json.dumps({"time_s": needs.time, "memory_mb": needs.memory / 1e6, "model_mb": needs.model / 1e6}))
"""
)
CHILD = (
    ROWS
    + """
from treetop.bench.measure import _peak_mb
needs = plan(recipe, preset=preset, settings=settings).forecast(data)
started, used = time.monotonic(), time.process_time()
model = treetop.fit(recipe, data, preset=preset, settings=settings, device="cpu", calibrate=False, out=out)
spent = time.monotonic() - started, time.process_time() - used
size = sum(file.stat().st_size for file in Path(out).rglob("*") if file.is_file())
print(json.dumps({
    "rows": len(data), "labels": data.n_labels, "bytes": len(data.texts.blob),
    "time_s": {"forecast": needs.time, "actual": spent[0], "cpu": spent[1]},
    "memory_mb": {"forecast": needs.memory / 1e6, "actual": _peak_mb()},
    "model_mb": {"forecast": needs.model / 1e6, "actual": size / 1e6},
}))
"""
)


def run(code: str, folder: Path, cell: str, work: str = "") -> dict:
    name, data, rows, *settings = cell.split(",")
    recipe, _, preset = name.partition(":")
    words = [recipe, preset or "default", str(folder / data), rows, str(Path(work) / "model"), *settings]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def today(folder: Path, file: Path) -> None:
    """What was measured, divided by what is forecast now."""
    for line in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        values = run(FORECAST, folder, line["name"])
        print(line["name"], {key: round(line[key]["actual"] / value, 2) for key, value in values.items()}, flush=True)


def measure(folder: Path, cell: str, work: str) -> dict:
    name, data, _, *settings = cell.split(",")
    values = run(CHILD, folder, cell, work)
    ratios = {
        key: round(values[key]["actual"] / values[key]["forecast"], 3) for key in ("time_s", "memory_mb", "model_mb")
    }
    return {
        **provenance(seed=0, root=ROOT), "versions": versions(), "name": cell, "rep": 0, "recipe": name,
        "settings": settings, "data": {"name": data, "train": values["rows"], "labels": values["labels"]},
        **{key: {k: round(v, 1) for k, v in values[key].items()} for key in ratios}, "actual ÷ forecast": ratios,
    }  # fmt: skip


def main() -> None:
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cells", nargs="*", default=list(CELLS), help="RECIPE[:PRESET],DATA,ROWS[,SETTING=VALUE...]")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--today", type=Path, help="file of records")
    options = parser.parse_args()
    if options.today is not None:
        today(options.data, options.today)
        return
    for cell in options.cells:
        with tempfile.TemporaryDirectory() as work:
            record = measure(options.data, cell, work)
        print(
            {key: record[key] for key in ("name", "time_s", "memory_mb", "model_mb", "actual ÷ forecast")}, flush=True
        )
        if options.record:
            with options.record.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
