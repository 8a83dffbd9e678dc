"""The classifier at two bytes a weight: the twin against float64 written out, the programs against the same.

The programs run on a GPU, or anywhere with TRITON_INTERPRET=1; without either a second Python interprets them.
"""

import importlib.util
import os
import secrets
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from treetop.kernels.gpu import full_bce_low, triton_runs
from treetop.kernels.gpu.full_bce import Positives
from treetop.kernels.gpu.full_bce_low import Descent, LowRows, plain_descent, random_bits, rounded

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
RATE, DECAY, SCALE = 0.5, 0.02, 0.3


def case(n, width, rows, *, strong=True, seed=None):
    """Vectors, table and triples; a row without any, triples twice at a place, and some outside the table."""
    seed = secrets.randbits(31) if seed is None else seed
    print("seed", seed)  # shown when a test fails
    rng = np.random.default_rng(seed)
    weight = torch.tensor(rng.normal(size=(n, width)) * 0.3).to(torch.bfloat16)
    bias, h = torch.tensor(rng.normal(size=n) - 1.0).float(), torch.tensor(rng.normal(size=(rows, width)))
    m = 4 * rows + 3
    row, column = rng.integers(0, max(1, rows - 1), m), rng.integers(-1, n + 2, m)
    row[:3], column[:3] = row[3], max(0, min(n - 1, column[3]))
    strength = torch.tensor(rng.integers(0, 3, m)).float() if strong else None
    triples = Positives(torch.tensor(row), torch.tensor(column), torch.tensor(rng.random(m)).float(), strength)
    return h.to(torch.bfloat16), LowRows(weight, bias, first=7), triples


def written_out(h, table, positives):
    """(loss, gradient over h, weights, biases) after an exact step, and what slopes cut off at 2^-8 twice may cost."""
    x, w, b = h.double().numpy(), table.weight.double().numpy(), table.bias.double().numpy()
    z = x @ w.T + b
    p, softplus = 1 / (1 + np.exp(-z)), np.logaddexp(0, z)
    slope, loss = p.copy(), softplus.copy()
    strength = np.ones(len(positives.row)) if positives.strength is None else positives.strength.double().numpy()
    triples = zip(positives.row.tolist(), positives.column.tolist(), positives.target.tolist(), strength, strict=True)
    for i, j, t, k in triples:
        if 0 <= j < len(w):
            slope[i, j] += k * (p[i, j] - t) - p[i, j]
            loss[i, j] += k * (softplus[i, j] - t * z[i, j]) - softplus[i, j]
    moved = w - RATE * (SCALE * slope.T @ x + DECAY * w)
    cut = 2**-7 * SCALE * (p + np.abs(slope))
    room = [cut @ np.abs(w), RATE * cut.T @ np.abs(x), RATE * cut.sum(0)]
    return loss.sum() * SCALE, SCALE * slope @ w, moved, b - RATE * SCALE * slope.sum(0), room


def moved(work, h, table, positives, draw=None, device=DEVICE, **more):
    """What `work` makes of a copy of the table: (loss, gradient over h, weights, biases) as float64 arrays."""
    held = LowRows(table.weight.clone().to(device), table.bias.clone().to(device), table.first, table.learns_bias)
    there = Positives(*(None if x is None else x.to(device) for x in vars(positives).values()))
    how = Descent(torch.tensor(more.pop("rate", RATE), device=device), DECAY, None if draw is None else draw.to(device))
    loss, grad = work(h.to(device), held, there, how, scale=more.pop("scale", SCALE), **more)
    return [x.double().cpu().numpy() for x in (loss, grad, held.weight, held.bias)]


def drawn(seed, step=0):
    return torch.tensor([seed, step], dtype=torch.int32)


def off(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


SIZES = [(70, 96, 37), (33, 40, 1), (129, 384, 5)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("strong", [True, False])
def test_the_twin_equals_float64(size, strong):
    h, table, positives = case(*size, strong=strong)
    wanted = written_out(h, table, positives)
    found = moved(plain_descent, h.float(), table, positives, device="cpu")
    assert abs(found[0] - wanted[0]) < 1e-5 * abs(wanted[0])
    assert off(found[1], wanted[1]) < 1e-5
    assert np.abs(found[2] - wanted[2]).max() <= 2**-8 * np.abs(wanted[2]).max()  # nearest: half a step of bfloat16
    np.testing.assert_allclose(found[3], wanted[3], atol=1e-5)


def test_the_mean_of_random_roundings_is_exact():
    """512 draws: the mean is off by at most 5 deviations of 0.5 steps / sqrt(512), nearest rounding by far more."""
    x = torch.linspace(-3.0, 3.0, 700).view(10, 70).contiguous()
    made = torch.stack([rounded(x, random_bits(drawn(5, step), 0, x)).double() for step in range(512)])
    step = 2.0 ** (torch.floor(torch.log2(x.abs().double())) - 7)
    assert ((made - x.double()).abs() < step).all()  # one of the two neighbours
    assert ((made.mean(0) - x.double()).abs() / step).max() < 5 * 0.5 / 512**0.5
    assert ((rounded(x, None).double() - x.double()).abs() / step).max() > 0.4


def test_random_bits_follow_seed_step_and_place_alone():
    like = torch.zeros(64, 50)
    bits = random_bits(drawn(3, 9), 100, like)
    assert torch.equal(bits[10:20], random_bits(drawn(3, 9), 110, like[:10]))
    for other in (drawn(4, 9), drawn(3, 10)):
        assert (random_bits(other, 100, like) == bits).float().mean() < 0.01
    many = random_bits(drawn(-1, 2**31 - 1), 2**32 - 5, torch.zeros(500, 401)).double() / 65536
    assert many.min() >= 0 and many.max() < 1
    assert abs(many.mean() - 0.5) < 0.005 and abs(many.var() - 1 / 12) < 0.002
    draws = np.stack([random_bits(drawn(5, step), 40, torch.zeros(8, 8)).flatten() for step in range(3000)])
    among = np.corrcoef(draws.T)[np.triu_indices(64, 1)]  # of chance alone: 1 / sqrt(3000)
    assert np.abs(among).max() < 0.1 and 0.015 < among.std() < 0.022


def test_what_is_no_number_stays_none():
    x = torch.tensor([[float("nan"), float("inf"), -float("inf"), 0.0]])
    x = torch.cat([x, torch.tensor([[0x7FFFFFFF, -1, 0, 0]], dtype=torch.int32).view(torch.float32)])
    made = rounded(x, torch.full(x.shape, 0xFFFF, dtype=torch.int32)).float()
    assert made[0, 0].isnan() and made[0, 1] == torch.inf and made[0, 2] == -torch.inf
    assert made[1, :2].isnan().all()


def test_small_steps_are_not_lost():
    """A thousand steps far smaller than bfloat16 can tell apart add up; nearest rounding makes none of them."""
    table = LowRows(torch.ones(8, 512, dtype=torch.bfloat16), torch.zeros(8))
    grad = torch.ones(8, 512)
    for step in range(1000):
        full_bce_low.step_rows(table, (0, 8), grad, None, Descent(1e-4, 0.0, drawn(1, step)))
    assert abs(table.weight.float().mean() - 0.9) < 0.003
    full_bce_low.step_rows(table, (0, 8), grad, None, Descent(1e-4, 0.0))
    still = table.weight.clone()
    full_bce_low.step_rows(table, (0, 8), grad, None, Descent(1e-4, 0.0))
    assert torch.equal(still, table.weight)


# --- the programs ---


def tiles(*, way="each", chunk=64):
    from treetop.kernels.gpu.full_bce_launch import Tile, Tiles

    step = Tile(64, 128, 64, 8, 3, "both") if way == "both" else Tile(64, 32, 64, 4, 2)
    return Tiles(Tile(64, 32, 64, 4, 2, "bulk" if way == "bulk" else "each"), step, chunk)


HOPPER = pytest.mark.skipif(not GPU or torch.cuda.get_device_capability() != (9, 0), reason="no compute capability 9.0")
WIDE = [(333, 200, 100), (1, 128, 256), (70, 768, 200), (5001, 136, 128)]
WAYS = [(size, way) for way in ("each", "bulk") for size in SIZES]
WAYS += [pytest.param(size, "both", marks=HOPPER) for size in WIDE]


def needs_programs():
    if not (GPU or triton_runs.INTERPRETED):
        pytest.skip("no GPU, and TRITON_INTERPRET is not set")
    pytest.importorskip("triton")
    from treetop.kernels.gpu.full_bce_launch import triton_descent

    return triton_descent


@pytest.mark.parametrize(("size", "way"), WAYS)
def test_programs_equal_float64(size, way):
    work = needs_programs()
    h, table, positives = case(*size, strong=way != "bulk")
    *wanted, room = written_out(h, table, positives)
    room[1] += 2**-7 * np.abs(wanted[2])  # the interpreter cuts off where a GPU rounds to the nearest
    found = moved(work, h, table, positives, tiles=tiles(way=way))
    assert abs(found[0] - wanted[0]) < 1e-5 * abs(wanted[0])
    for name, a, b, most in zip(("h", "weight", "bias"), found[1:], wanted[1:], room, strict=True):
        assert (np.abs(a - b) <= most + 1e-5).all(), name
    without = moved(work, h, table, positives, tiles=tiles(way=way), value=False)
    assert without[0] == 0.0
    for a, b in zip(found[1:], without[1:], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("way", ["each", pytest.param("both", marks=HOPPER)])
def test_programs_round_as_the_twin_does(way):
    """Without a gradient both steps are the same numbers, so every random bit must be the same."""
    work = needs_programs()
    h, table, positives = case(100, 72, 3) if way == "each" else case(200, 136, 100)
    found = moved(work, h, table, positives, drawn(3, 4), scale=0.0, tiles=tiles(way=way))
    wanted = moved(plain_descent, h.float(), table, positives, drawn(3, 4), scale=0.0)
    other = moved(plain_descent, h.float(), table, positives, drawn(3, 5), scale=0.0)
    np.testing.assert_array_equal(found[2], wanted[2])
    assert (found[2] != other[2]).mean() > 0.1


def test_programs_round_to_the_exact_step_on_average():
    """Of 32 draws, at most 5 deviations of 0.5 steps of bfloat16 / sqrt(32), beside what the slopes' own type costs."""
    work = needs_programs()
    h, table, positives = case(20, 32, 5)
    _, _, wanted, _, room = written_out(h, table, positives)
    draws = [moved(work, h, table, positives, drawn(8, i), tiles=tiles(), value=False)[2] for i in range(32)]
    step = 2.0 ** (np.floor(np.log2(np.abs(wanted) + room[1])) - 7)
    assert (np.abs(np.mean(draws, 0) - wanted) <= 5 * 0.5 / 32**0.5 * step + room[1]).all()
    assert np.mean(np.abs(draws[0] - wanted) > 5 * 0.5 / 32**0.5 * step) > 0.05  # one draw is not enough


def test_programs_do_not_depend_on_tiles_and_chunks():
    work = needs_programs()
    h, table, positives = case(100, 64, 70)
    first = moved(work, h, table, positives, drawn(1), tiles=tiles(chunk=100))
    for other in (tiles(chunk=32), tiles(way="bulk", chunk=96)):
        np.testing.assert_array_equal(moved(work, h, table, positives, drawn(1), tiles=other)[2], first[2])


@HOPPER
def test_programs_repeat_themselves_in_one_pass():
    work = needs_programs()
    h, table, positives = case(9000, 768, 256)
    first, second = (moved(work, h, table, positives, drawn(1), tiles=tiles(way="both", chunk=c)) for c in (9000, 4032))
    for a, b in zip(
        first, moved(work, h, table, positives, drawn(1), tiles=tiles(way="both", chunk=9000)), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(first[2], second[2])
    np.testing.assert_allclose(first[1], second[1], rtol=1e-4, atol=1e-5)


def test_programs_without_triples_or_biases():
    work = needs_programs()
    h, table, _ = case(40, 32, 4)
    none = Positives(*(torch.zeros(0, dtype=torch.int64),) * 2, torch.zeros(0))
    table = LowRows(table.weight, table.bias, learns_bias=False)
    found = moved(work, h, table, none, tiles=tiles())
    *_, wanted, _, _, room = written_out(h, table, none)
    assert (np.abs(found[1] - wanted) <= room[0] + 1e-5).all()
    np.testing.assert_array_equal(found[3], table.bias.double().numpy())


def test_the_programs_interpreted():
    """The tests above in a Python that interprets the programs."""
    if GPU or triton_runs.INTERPRETED or importlib.util.find_spec("triton") is None:
        pytest.skip("the programs run here anyway, or Triton is not installed")
    call = [sys.executable, "-m", "pytest", "-q", "-x", "-k", "programs and not interpreted", __file__]
    done = subprocess.run(call, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
