"""One step of the classifier over all labels on one GPU: time, memory and error, the bounds beside it.

    python benchmarks/gpu/full_step.py --out results.jsonl

Prints a JSON line for each case; a case that fails says so and the next one runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from treetop.kernels.gpu import full_bce_launch as launch
from treetop.kernels.gpu.full_bce import Positives, full_loss
from treetop.kernels.gpu.full_bce_low import CHUNK, Descent, LowRows, plain_descent
from treetop.network.vectors.full import FullTable
from treetop.train.optim import AdamConfig

GPU = torch.device("cuda")
CHUNKS = (33792, 67584, 135168, 270336)
ERRORS = ((2049, 768, 200), (1000, 384, 37), (333, 96, 1))  # labels, width, rows
REPEAT = 50


class Report:
    """Lines, printed and kept; cases after the time limit are left out."""

    def __init__(self, out: Path | None, limit: float) -> None:
        self.out, self.limit, self.started = out, limit, time.monotonic()

    def say(self, **line: Any) -> None:
        text = json.dumps(line)
        print(text, flush=True)
        if self.out is not None:
            with self.out.open("a") as file:
                file.write(text + "\n")

    def run(self, name: str, work: Callable[[], dict[str, Any]], **facts: Any) -> dict[str, Any]:
        """What `work` finds, with seconds spent and peak memory; {} where it fails."""
        before = time.monotonic()
        if before - self.started > self.limit:
            self.say(case=name, **facts, skipped="time limit")
            return {}
        try:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            found = work()
            torch.cuda.synchronize()
            found["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 3)
        except Exception as error:
            traceback.print_exc()
            self.say(case=name, **facts, error=f"{type(error).__name__}: {str(error)[:300]}")
            return {}
        self.say(case=name, **facts, **found, seconds=round(time.monotonic() - before, 2))
        return found


def timed(work: Callable[[], Any], repeat: int = REPEAT, warm: int = 3) -> float:
    """Milliseconds of one call, the median of `repeat`, by the device's clock."""
    for _ in range(warm):
        work()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeat)]
    for begin, end in pairs:
        begin.record()
        work()
        end.record()
    torch.cuda.synchronize()
    return round(statistics.median(begin.elapsed_time(end) for begin, end in pairs), 4)


def replayed(work: Callable[[], Any]) -> float:
    """As `timed`, of a recorded graph: what training does."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return timed(graph.replay)


def made_up(n: int, width: int, rows: int, *, soft: bool) -> tuple[Tensor, LowRows, Positives]:
    """Vectors, table and triples at random; some rows are empty, some triples double, some not of this table."""
    weight = torch.empty(n, width, device=GPU, dtype=torch.bfloat16)
    for start in range(0, n, 1 << 18):
        part = weight[start : start + (1 << 18)]
        part.copy_(torch.randn(part.shape, device=GPU) * width**-0.5)
    table = LowRows(weight, torch.randn(n, device=GPU) - (2.0 if soft else 8.0))
    h = torch.randn(rows, width, device=GPU).to(torch.bfloat16)
    m = 5 * rows
    row = torch.randint(0, max(1, rows * 3 // 4), (m,), device=GPU)
    column = torch.randint(-1 if soft else 0, n + 2 if soft else n, (m,), device=GPU)
    row[: m // 5], column[: m // 5] = row[m // 5 : 2 * (m // 5)].clone(), column[m // 5 : 2 * (m // 5)].clone()
    target = torch.rand(m, device=GPU) if soft else torch.ones(m, device=GPU)
    strength = torch.randint(0, 3, (m,), device=GPU).float() if soft else None
    return h, table, Positives(row, column, target, strength)


def copied(table: LowRows) -> LowRows:
    return replace(table, weight=table.weight.clone(), bias=table.bias.clone())


def rule(seed: int = 1, rate: float = 0.05, decay: float = 0.01, stochastic: bool = True) -> Descent:
    draw = torch.tensor([seed, 3], dtype=torch.int32, device=GPU) if stochastic else None
    return Descent(torch.tensor(rate, device=GPU), decay, draw)


# --- errors ---


def wanted(h: Tensor, table: LowRows, positives: Positives, how: Descent, scale: float) -> tuple[Tensor, ...]:
    """(loss, gradient over h, weights, biases) in float64, written out."""
    w, b, x = table.weight.double(), table.bias.double(), h.double()
    z = x @ w.T + b
    softplus = torch.nn.functional.softplus(z)
    slope, loss = torch.sigmoid(z), softplus.clone()
    inside = (positives.column >= 0) & (positives.column < len(w))
    i, j, t = positives.row[inside], positives.column[inside], positives.target[inside].double()
    k = torch.ones_like(t) if positives.strength is None else positives.strength[inside].double()
    p, at, like = torch.sigmoid(z)[i, j], softplus[i, j], z[i, j]
    slope.index_put_((i, j), k * (p - t) - p, accumulate=True)
    loss.index_put_((i, j), k * (at - t * like) - at, accumulate=True)
    rate = float(how.rate)
    moved = w - rate * (scale * (slope.T @ x) + how.decay * w)
    return loss.sum() * scale, slope @ w * scale, moved, b - rate * scale * slope.sum(0)


def relative(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b).norm() / b.norm().clamp_min(1e-30))


def errors(n: int, width: int, rows: int) -> dict[str, Any]:
    """Distances from float64; `step` is that of the weights' change, averaged over draws of the rounding."""
    seed = torch.seed() % 2**31
    torch.manual_seed(seed)
    h, table, positives = made_up(n, width, rows, soft=True)
    truth = wanted(h, table, positives, rule(), 1 / rows)
    found: dict[str, Any] = {"seed": seed}
    change = truth[2] - table.weight.double()
    ulp = 2.0 ** (torch.floor(torch.log2(truth[2].abs().clamp_min(1e-30))) - 7)
    for name, work in (("fused", launch.triton_descent), ("plain", plain_descent)):
        total, draws = torch.zeros_like(change), 64
        for draw in range(draws):
            held = copied(table)
            loss, grad = work(h, held, positives, rule(draw), scale=1 / rows)
            total += held.weight.double() - table.weight.double()
        nearest = copied(table)
        work(h, nearest, positives, rule(stochastic=False), scale=1 / rows)
        found[name] = {
            "loss": relative(loss, truth[0]),
            "grad_h": relative(grad, truth[1]),
            "bias": float((held.bias.double() - truth[3]).abs().max()),
            "mean_step": relative(total / draws, change),
            "nearest_weights": relative(nearest.weight, truth[2]),
        }
    # What 64 draws leave of the rounding itself: its deviation is at most half a step of bfloat16.
    found["mean_step_of_chance"] = float((ulp.pow(2).sum() / 12 * 2 / 64).sqrt() / change.norm())
    return found


def same_bits() -> dict[str, Any]:
    """Whether all tiles and chunks give the same weights, and whether a seed repeats them."""
    h, table, positives = made_up(5000, 768, 256, soft=True)
    found: dict[str, list[Any]] = {"slopes": [], "steps": [], "chunks": []}

    def go(tiles: launch.Tiles, seed: int = 1) -> Tensor:
        held = copied(table)
        launch.triton_descent(h, held, positives, rule(seed), scale=1 / 256, value=False, tiles=tiles)
        return held.weight

    first = go(launch.Tiles())
    options = [("slopes", launch.Tiles(slopes=t), t) for t in launch.SLOPES]
    options += [("steps", launch.Tiles(steps=t), t) for t in launch.STEPS]
    options += [("chunks", launch.Tiles(chunk=c), c) for c in (1024, 4096)]
    for name, tiles, shown in options:
        try:
            found[name].append([shown, round(float((go(tiles) == first).float().mean()), 6)])
        except Exception as error:
            found[name].append([shown, f"{type(error).__name__}: {str(error)[:120]}"])
    again, other = torch.equal(go(launch.Tiles()), first), float((go(launch.Tiles(), 2) == first).float().mean())
    return {**found, "repeats": again, "same_with_another_seed": round(other, 4)}


# --- time ---


def copying(weight: Tensor) -> float:
    half = weight[: len(weight) // 2]
    space = torch.empty_like(half)
    return 2 * timed(lambda: space.copy_(half))


def bounds(report: Report, h: Tensor, table: LowRows, chunk: int) -> None:
    """Copying the table once, and the three products with nothing around them."""
    n, rows = len(table.weight), len(h)
    report.run("copy bound", lambda: {"ms": copying(table.weight)}, note="read and write all weights")
    slope = torch.rand(chunk, rows, device=GPU).to(torch.bfloat16) * 0.01
    logits = torch.empty_like(slope)
    grad = torch.empty(chunk, h.shape[1], device=GPU, dtype=torch.bfloat16)
    spans = [(start, min(n, start + chunk)) for start in range(0, n, chunk)]

    def in_parts(w: Tensor, m: int) -> Any:
        if m % 22:
            return launch.product(slope[:m].T, w)
        parts = slope[:m].view(22, -1, rows).transpose(1, 2)
        return torch.bmm(parts, w.view(22, -1, w.shape[1]), out_dtype=torch.float32).sum(0)

    def each(work: Callable[[Tensor, int], Any]) -> Callable[[], Any]:
        return lambda: [work(table.weight[a:b], b - a) for a, b in spans]

    parts: dict[str, Callable[[Tensor, int], Any]] = {
        "logits": lambda w, m: torch.mm(w, h.T, out=logits[:m]),
        "grad_h": lambda w, m: launch.product(slope[:m].T, w),
        "grad_w": lambda w, m: torch.mm(slope[:m], h, out=grad[:m]),
    }
    for name, work in parts.items():
        report.run("bare product", lambda work=work: {"ms": timed(each(work), 20)}, part=name, chunk=chunk)
    report.run("bare product", lambda: {"ms": timed(each(in_parts), 20)}, part="grad_h in 22 parts", chunk=chunk)
    report.run(
        "bare product",
        lambda: {"ms": timed(each(lambda w, m: [work(w, m) for work in parts.values()]), 20)},
        part="all three", chunk=chunk,
    )  # fmt: skip


def programs(report: Report, h: Tensor, table: LowRows, chunk: int) -> launch.Tiles:
    """Every tile of both programs over the whole table, recorded; the fastest ones. Steps with the gradient over h."""
    n, rows, how = len(table.weight), len(h), rule(rate=0.0)
    rooms = {tile: launch.Slopes.room(chunk, h, tile) for tile in launch.SLOPES}
    space = rooms[launch.SLOPES[0]]
    space.made.copy_(torch.sigmoid(torch.randn(space.made.shape, device=GPU) - 8)), space.sums.fill_(0.01)
    spans = [(start, min(n, start + chunk)) for start in range(0, n, chunk)]

    def rows_of(a: int, b: int) -> LowRows:
        return LowRows(table.weight[a:b], table.bias[a:b], a)

    def forward(tile: launch.Tile) -> None:
        for a, b in spans:
            launch.launch_slopes(h, rows_of(a, b), rooms[tile].first(b - a), rows, value=False, tile=tile)

    grad = torch.zeros(132, *h.shape, device=GPU)

    def back(tile: launch.Tile) -> None:
        for a, b in spans:
            launch.launch_back(space.first(b - a), h, rows_of(a, b), grad, how, scale=1 / rows, tile=tile)

    best = {}
    for name, work, tiles in (("slopes", forward, launch.SLOPES), ("step", back, launch.STEPS)):
        took = {}
        for tile in tiles:
            found = report.run(
                "program", lambda w=work, t=tile: {"ms": replayed(partial(w, t))}, part=name, tile=tile, chunk=chunk
            )
            if found:
                took[tile] = found["ms"]
        best[name] = min(took, key=took.__getitem__) if took else tiles[0]
    return launch.Tiles(best["slopes"], best["step"], chunk)


def steps(report: Report, h: Tensor, table: LowRows, positives: Positives, best: launch.Tiles) -> None:
    """Whole steps, launched one by one and recorded."""
    scale, how = 1.0 / len(h), rule(rate=1e-3)

    def fused_step(tiles: launch.Tiles | None, value: bool = False) -> Any:
        return launch.triton_descent(h, table, positives, how, scale=scale, value=value, tiles=tiles)

    for chunk in CHUNKS:
        tiles = replace(best, chunk=chunk)
        facts = {"chunk": chunk, "slopes": best.slopes, "steps": best.steps}
        report.run("fused, recorded", lambda t=tiles: {"ms": replayed(lambda: fused_step(t))}, **facts)
        report.run("fused, launched", lambda t=tiles: {"ms": timed(lambda: fused_step(t), 20)}, **facts)
    for other in launch.SLOPES:
        tiles = replace(best, slopes=other)
        facts = {"chunk": best.chunk, "slopes": other, "steps": best.steps}
        report.run("fused, recorded", lambda t=tiles: {"ms": replayed(lambda: fused_step(t))}, **facts)
    report.run("fused, recorded, tiles as tuned", lambda: {"ms": replayed(lambda: fused_step(None))})
    report.run("fused, with the loss", lambda: {"ms": timed(lambda: fused_step(best, True), 10)})

    def nearest(start: int, stop: int, weight: Tensor, bias: Tensor | None) -> None:
        table.weight[start:stop].mul_(1 - 1e-5).add_(weight, alpha=-1e-3)
        table.bias[start:stop].add_(bias, alpha=-1e-3)

    def chunked() -> Any:
        return full_loss(h, table.weight, table.bias, positives, scale=scale, block=65536, update=nearest, value=False)

    report.run("plain chunks, nearest rounding", lambda: {"ms": timed(chunked, 20)}, chunk=65536)
    report.run("plain twin", lambda: {"ms": timed(lambda: plain_descent(h, table, positives, how, scale=scale), 3, 1)})


def adam(n: int, width: int, rows: int) -> dict[str, Any]:
    """The default table: float32 weights and two moments."""
    table = FullTable(n, width, AdamConfig(lr=1e-3), GPU)
    h = torch.randn(rows, width, device=GPU, requires_grad=True)
    row = torch.arange(rows, device=GPU).repeat_interleave(5)
    positives = Positives(row, torch.randint(0, n, row.shape, device=GPU), torch.ones(len(row), device=GPU))

    def one() -> None:
        table.prepare(1.0, fuse=True, value=False)
        table.score_loss(h, positives, 1 / rows).backward()
        table.apply()

    return {"ms": timed(one, 10)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--labels", type=int, default=2_812_281)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--limit", type=float, default=55.0, help="seconds after which cases are left out")
    args = parser.parse_args()
    report = Report(args.out, args.limit)
    report.say(case="machine", device=torch.cuda.get_device_name(), torch=torch.__version__, labels=args.labels,
               width=args.width, rows=args.rows)  # fmt: skip
    h, table, positives = made_up(args.labels, args.width, args.rows, soft=False)  # rows: a multiple of 64
    best = programs(report, h, table, CHUNK)
    steps(report, h, table, positives, best)
    bounds(report, h, table, CHUNK)
    del table
    for n, width, rows in ERRORS:
        report.run("error", partial(errors, n, width, rows), labels=n, width=width, rows=rows)
    report.run("same bits", same_bits)
    for n in (131_072, 1_300_000):
        report.run("float32 and Adam", partial(adam, n, args.width, args.rows), labels=n)
        torch.cuda.empty_cache()
    report.say(case="done", seconds=round(time.monotonic() - report.started, 1))


if __name__ == "__main__":
    main()
