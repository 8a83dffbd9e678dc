"""Launches the Triton programs of the bfloat16 classifier, chunk by chunk, and tunes their tiles."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from treetop.core import log
from treetop.kernels.gpu import triton_runs
from treetop.kernels.gpu.full_bce import Positives
from treetop.kernels.gpu.full_bce_low import CHUNK, HELD, Descent, LowRows

TUNED = 1 << 18  # labels from which tuning tiles pays off
TRIED = CHUNK // 4  # labels they are tried on


class Tile(NamedTuple):
    """A program's share of a product, and how operands are loaded.

    each: loads by the program; bulk: by the copy engine; both: the gradient over h in the same pass (compute
    capability 9.0, 65 to 256 rows).
    """

    labels: int
    across: int  # rows of h for slopes, columns for the step
    inner: int
    warps: int
    stages: int
    way: Literal["each", "bulk", "both"] = "each"


SLOPES = (
    Tile(128, 128, 64, 8, 3),
    Tile(128, 256, 64, 8, 3),
    Tile(128, 128, 64, 8, 3, "bulk"),
    Tile(128, 128, 64, 4, 2, "bulk"),
    Tile(128, 256, 64, 8, 4, "bulk"),
)
STEPS = (Tile(128, 128, 64, 8, 3), Tile(128, 256, 64, 8, 3), Tile(64, 128, 64, 8, 3, "both"))


@dataclass(frozen=True)
class Tiles:
    """How the work is divided among the Triton programs; results do not depend on it."""

    slopes: Tile = SLOPES[0]
    steps: Tile = STEPS[0]
    chunk: int = CHUNK


@dataclass(frozen=True, eq=False)
class Slopes:
    """Buffers for the slopes of a chunk, (labels, padded rows), and their sums over the rows, (blocks, labels)."""

    made: Tensor
    sums: Tensor

    @classmethod
    def room(cls, chunk: int, h: Tensor, tile: Tile) -> Slopes:
        blocks = -(-len(h) // min(tile.across, triton_runs.power(len(h))))
        slopes_ = torch.empty(chunk, len(h), device=h.device, dtype=torch.bfloat16)
        return cls(slopes_, torch.empty(blocks * chunk, device=h.device))

    def first(self, n: int) -> Slopes:
        """The same buffers for `n` labels."""
        blocks = len(self.sums) // len(self.made)
        return Slopes(self.made[:n], self.sums[: blocks * n])


def triton_descent(
    h: Tensor,
    table: LowRows,
    positives: Positives,
    rule: Descent,
    *,
    scale: float,
    value: bool = True,
    tiles: Tiles | None = None,
) -> tuple[Tensor, Tensor]:
    """As `full_descent`: slopes of a chunk in bfloat16, their product with the weights, then the weights' step."""
    n, rows = len(table.weight), len(h)
    padded = _padded(h)
    tiles = tuned(padded, n) if tiles is None else tiles
    rule = replace(rule, rate=torch.as_tensor(rule.rate, device=h.device))
    loss = _loss_at_positives(padded, table, positives) if value else torch.zeros((), device=h.device)
    grad = torch.zeros(_sides(padded, n, tiles.steps), *padded.shape, device=h.device)
    marks = merged(positives, rows)
    chunk = min(tiles.chunk, HELD // len(padded))
    space = Slopes.room(min(chunk, n), padded, tiles.slopes)
    for start in range(0, n, chunk):
        stop = min(n, start + chunk)
        part = LowRows(table.weight[start:stop], table.bias[start:stop], table.first + start, table.learns_bias)
        slopes = space.first(stop - start)
        negative = launch_slopes(padded, part, slopes, rows, value=value, tile=tiles.slopes)
        loss = loss if negative is None else loss + negative
        launch_correct(slopes, marks, start)
        launch_back(slopes, padded, part, grad, rule, scale=scale, tile=tiles.steps)
    grad = grad.sum(0)[:rows]
    return (loss if value else grad.sum() * 0.0) * scale, grad * scale


def launch_slopes(h: Tensor, part: LowRows, room: Slopes, rows: int, *, value: bool, tile: Tile) -> Tensor | None:
    """Fill `room` with probabilities; with `value`, returns the loss as if all were negatives."""
    from treetop.kernels.gpu import full_bce_triton as kernels

    n, padded, width = len(part.weight), len(h), h.shape[1]
    batch, inner = min(tile.across, triton_runs.power(padded)), min(tile.inner, max(16, triton_runs.power(width)))
    programs = -(-n // tile.labels) * -(-padded // batch)
    shape = {"WIDTH": width, "PADDED": padded, "VALUE": value, "LABELS": tile.labels, "BATCH": batch, "INNER": inner}
    more = {"num_warps": tile.warps, "num_stages": tile.stages}
    parts = torch.empty(programs if value else 1, device=h.device)
    given: tuple[Any, ...] = (h, part.weight, room.made)
    work = kernels.slopes
    if tile.way == "bulk" and width % 8 == 0:
        blocks = (batch, inner), (tile.labels, inner), (tile.labels, batch)
        given = tuple(kernels.described(x, *block) for x, block in zip(given, blocks, strict=True))
        work = kernels.slopes_bulk
    work[(programs,)](*given, part.bias, room.sums, parts, n, rows, **shape, **more)
    return parts.sum() if value else None


Marks = tuple[Tensor, Tensor, Tensor, Tensor]  # columns, rows, factors, offsets


def merged(positives: Positives, rows: int) -> Marks:
    """Positives sorted by label and row, duplicates merged."""
    from treetop.kernels.gpu import full_bce_triton as kernels

    keys, order = torch.sort(positives.column * rows + positives.row, stable=True)
    place, targets, strength = positives.row[order], positives.target[order], positives.strength
    strengths = targets if strength is None else strength[order]
    factor, offset = (torch.zeros(len(keys), device=keys.device) for _ in range(2))
    if len(keys):
        kernels.merge[(len(keys),)](
            keys, place, targets, strengths, factor, offset, len(keys), STRONG=strength is not None, num_warps=1
        )
    return positives.column[order], place, factor, offset


def launch_correct(room: Slopes, marks: Marks, start: int) -> None:
    """Correct the slopes at positives, which were computed as negatives."""
    from treetop.kernels.gpu import full_bce_triton as kernels

    n, total = len(room.made), len(marks[0])
    if total:
        padded = room.made.shape[1]
        kernels.correct[(total,)](room.made, room.sums, *marks, start, n, total, PADDED=padded, WIDE=64, num_warps=1)


def launch_back(
    room: Slopes, h: Tensor, part: LowRows, grad: Tensor, rule: Descent, *, scale: float, tile: Tile
) -> None:
    """Add the slopes' product with the weights to `grad`, then update weights and biases."""
    (n, padded), width = room.made.shape, h.shape[1]
    rate = torch.as_tensor(rule.rate, device=h.device)
    given = (rate, rate if rule.draw is None else rule.draw, scale, rule.decay, part.first, n)
    shape = {"WIDTH": width, "PADDED": padded, "STOCHASTIC": rule.draw is not None, "LABELS": tile.labels}
    if _both(h, tile):
        from treetop.kernels.gpu import full_bce_hopper as hopper

        blocks = ((room.made, tile.labels, padded), (h, padded, tile.across), (part.weight, tile.labels, tile.across))
        slopes_, rows, weight = (hopper.described(*block) for block in blocks)
        programs = _sides(h, n, tile) * -(-width // tile.across)
        hopper.step_both[(programs,)](slopes_, rows, weight, grad, *given, **shape, COLUMNS=tile.across, num_warps=8)
    else:
        from treetop.kernels.gpu import full_bce_triton as kernels

        grad[0] += product(room.made.T, part.weight)  # before the weights change
        columns, inner = min(tile.across, max(16, triton_runs.power(width))), min(tile.inner, padded)
        more = {"COLUMNS": columns, "INNER": inner, "num_warps": tile.warps, "num_stages": tile.stages}
        programs = -(-n // tile.labels) * -(-width // columns)
        kernels.step[(programs,)](room.made, h, part.weight, *given, **shape, **more)
    if part.learns_bias:
        part.bias.addcmul_(room.sums.view(-1, n).sum(0), rate, value=-scale)


def _both(h: Tensor, tile: Tile) -> bool:
    """Whether both products are computed in one pass for padded rows like `h`."""
    fits = len(h) in (128, 256) and h.shape[1] % 8 == 0 and h.shape[1] >= tile.across
    return tile.way == "both" and fits and h.is_cuda and torch.cuda.get_device_capability(h.device) == (9, 0)


def _sides(h: Tensor, n: int, tile: Tile) -> int:
    """Partial sums of the gradient over `h`: one per persistent program along the labels."""
    if not _both(h, tile):
        return 1
    return max(1, min(-(-n // tile.labels), _processors(h.device) // -(-h.shape[1] // tile.across)))


def product(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product of bfloat16 matrices, accumulated in float32."""
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


def _loss_at_positives(h: Tensor, table: LowRows, positives: Positives) -> Tensor:
    """Loss of positives minus their loss as negatives, with the current weights."""
    inside = (positives.column >= 0) & (positives.column < len(table.weight))
    column, total = torch.where(inside, positives.column, 0), torch.zeros((), device=h.device)
    for i in range(0, len(column), 1 << 14):
        at = slice(i, i + (1 << 14))
        z = (h[positives.row[at]].float() * table.weight[column[at]].float()).sum(1) + table.bias[column[at]]
        true = F.softplus(z) - positives.target[at] * z
        true = true if positives.strength is None else positives.strength[at] * true
        total = total + torch.where(inside[at], true - F.softplus(z), 0.0).sum()
    return total


def _padded(h: Tensor) -> Tensor:
    """bfloat16 rows, padded with zero rows to a multiple of the tile size."""
    n = len(h)
    rows = 16 if n <= 16 else 32 if n <= 32 else -(-n // 64) * 64
    return F.pad(h.to(torch.bfloat16), (0, 0, 0, rows - n)).contiguous()


@functools.cache
def _processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


# --- tuning of the tiles ---

_found: dict[tuple[str, int, int], Tiles] = {}


def tuned(h: Tensor, n: int) -> Tiles:
    """The fastest tiles on this device for padded rows like `h`, measured once; the defaults for few labels."""
    if not h.is_cuda or n < TUNED:
        return Tiles()
    key = (str(h.device), len(h), h.shape[1])
    if key not in _found and not torch.cuda.is_current_stream_capturing():
        _found[key] = _tried(h)
    return _found.get(key, Tiles())


def _tried(h: Tensor) -> Tiles:
    part = LowRows(h.new_zeros(TRIED, h.shape[1]), torch.zeros(TRIED, device=h.device))
    space, sides = Slopes.room(TRIED, h, SLOPES[0]), max(_sides(h, TRIED, tile) for tile in STEPS)
    grad = torch.zeros(sides, *h.shape, device=h.device)
    rule = Descent(torch.zeros((), device=h.device), 0.0, torch.zeros(2, dtype=torch.int32, device=h.device))

    def forward(tile: Tile) -> None:
        launch_slopes(h, part, Slopes.room(TRIED, h, tile), len(h), value=False, tile=tile)

    def back(tile: Tile) -> None:
        launch_back(space, h, part, grad, rule, scale=1.0, tile=tile)

    return Tiles(_fastest(forward, SLOPES), _fastest(back, STEPS))


def _fastest(work: Callable[[Tile], None], tiles: tuple[Tile, ...]) -> Tile:
    """The tile with the shortest median of five runs; one that does not run on this device is skipped."""
    times: dict[Tile, float] = {}
    for tile in tiles:
        try:
            times[tile] = _milliseconds(work, tile)
        except Exception as error:  # another device may have less room, another compiler other limits
            log.logger.debug("tile %s does not run here: %s", tile, error)
    return min(times, key=times.__getitem__) if times else tiles[0]


def _milliseconds(work: Callable[[Tile], None], tile: Tile) -> float:
    """Median of five runs as a CUDA graph, so launch overhead does not count."""
    work(tile)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work(tile)
    times = []
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(float(start.elapsed_time(end)))
    return sorted(times)[2]
