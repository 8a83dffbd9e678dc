"""Where a cold start goes: seconds until each of the first steps, in a process and a kernel cache of their own.

python benchmarks/gpu/cold.py --data build/gpu
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

BEGUN = time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--test", action="store_true", help="look at the test rows at the end")
    parser.add_argument("--settings", default="{}")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
    marks: list[tuple[str, float]] = []

    def mark(name: str) -> None:
        marks.append((name, round(time.perf_counter() - BEGUN, 2)))

    import torch
    from pack import unpack

    from treetop.core.dataset import Dataset
    from treetop.network import fit as network_fit
    from treetop.network import prepare
    from treetop.train import loop
    from treetop.training import fit

    mark("imported")
    unpack(options.data)
    train = Dataset.read(options.data / "finna-yso-en-25k", "train")
    mark("read")
    for module, name in (
        (prepare, "tokenise"), (network_fit, "_starts"), (network_fit, "Network"), (network_fit, "train"),
    ):  # fmt: skip
        real = getattr(module, name)

        def seen(*args: Any, real: Any = real, name: str = name, **named: Any) -> Any:
            mark(f"{name} begins")
            made = real(*args, **named)
            torch.cuda.synchronize()
            mark(f"{name} ended")
            return made

        setattr(module, name, seen)
    step, count = loop._Run._step, [0]

    def timed(self: Any, batch: Any) -> None:
        step(self, batch)
        count[0] += 1
        if count[0] in (1, 2, 3, 5, 10, 20, 40, 80, 160, 320, 640):
            torch.cuda.synchronize()
            mark(f"step {count[0]}")

    loop._Run._step = timed  # type: ignore[method-assign]
    settings = json.loads(options.settings)
    settings["encoder"] = {"model": str(options.data / "encoder"), **settings.get("encoder", {})}
    model = fit("lightxml", train, settings=settings, device="cuda")
    mark("fit ended")
    line: dict[str, Any] = {"section": "cold", "settings": settings, "marks": marks, "cores": os.cpu_count()}
    if options.test:
        test = Dataset.read(options.data / "finna-yso-en-25k", "test").align(train.labels)
        scores = model.to("cuda").evaluate(test)
        line |= {f"{kind}@{k}": round(scores[f"{kind}@{k}"], 2) for kind in ("P", "PSP") for k in (1, 3, 5)}
    line["memory"] = torch.cuda.max_memory_allocated()
    print(json.dumps(line), flush=True)
    if options.out:
        options.out.write_text(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
