"""One step of dual coordinate descent on one row, for all problems of `lanes` at once and without branches."""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types

from treetop.kernels.linear.lanes import (
    BIAS,
    HIGH,
    HIGH_BEFORE,
    LONG,
    LOW,
    LOW_BEFORE,
    MARGIN,
    STEP,
    WORD,
    Lanes,
    Vectors,
    typed,
)

FAR = 40.0  # log odds are kept within: a dual that is nearly 0 or nearly its cost
_NEAR = 4.0  # Newton starts at the old dual when its gradient is below, else in the middle
_TURNS = 40
MOVED, AWAKE = 1, 2  # what a step returns: some lane moved; some lane may move in the next pass


class _Row(NamedTuple):
    """What a step reads, one value per lane."""

    y: Any
    size: Any
    old: Any
    margin: Any
    length: Any
    alone: Any
    constant: Any


def _row(own: Lanes, at: Any, numbers: Any) -> _Row:
    side, old, margin = (
        own.load(own.line(own.side, at)),
        own.load(own.line(own.alpha, at)),
        own.load(own.state[MARGIN]),
    )
    y = own.pick(">", side, own.number(0.0), own.number(1.0), own.number(-1.0))
    length, alone, constant = (own.spread(own.builder.extract_value(numbers, k)) for k in range(3))
    return _Row(y, own.builder.fmul(side, y), old, margin, length, alone, constant)


def _leave(own: Lanes, row: _Row, gradient: Any, step: Any) -> None:
    """Move the bias along, keep the step and the extreme gradients."""
    builder, state = own.builder, own.state
    own.store(builder.fadd(own.load(state[BIAS]), builder.fmul(step, row.constant)), state[BIAS])
    own.store(own.least(gradient, own.load(state[LOW])), state[LOW])
    own.store(own.most(gradient, own.load(state[HIGH])), state[HIGH])
    own.store(step, state[STEP])


def _news(builder: Any, moved: Any, awake: Any) -> Any:
    return builder.or_(
        builder.select(moved, LONG(MOVED), LONG(0)),
        builder.select(awake, LONG(AWAKE), LONG(0)),
    )


@typed
def box_step(typing: Any, lanes: Any, row: Any, numbers: Any, squared: Any) -> Any:
    """A step for the hinge or the squared hinge on `alpha[row, :]`; moves `state` along, returns MOVED and AWAKE.

    The sign of a side is the target y. Its size is 1 / (2 cost) where `squared`, inf meaning absent, else the cost,
    0 meaning absent. `numbers` = (squared length, part of it only this row has, value of the bias feature):
    g = y m - 1 + (shift + alone) a;  a' = min(max(a - g / (length + shift), 0), cap).
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        own = Lanes(context, builder, lanes, args[0])
        at = context.cast(builder, args[1], row, types.int64)
        flag = context.cast(builder, args[3], squared, types.boolean)
        here = _row(own, at, args[2])
        size, old = here.size, here.old
        zero, one, inf = own.number(0.0), own.number(1.0), own.number(float("inf"))
        present = builder.select(flag, own.pick("<", size, inf, one, zero), own.pick(">", size, zero, one, zero))
        shift = builder.select(flag, own.pick("<", size, inf, size, one), zero)
        cap = builder.select(flag, own.pick("<", size, inf, inf, zero), size)
        gradient = builder.fsub(builder.fmul(here.y, here.margin), one)
        gradient = builder.fadd(gradient, builder.fmul(builder.fadd(shift, here.alone), old))
        falling, rising = own.least(gradient, zero), own.most(gradient, zero)
        projected = own.pick(">", old, zero, own.pick("<", old, cap, gradient, rising), falling)
        projected = own.pick(">", present, zero, projected, zero)
        new = builder.fsub(old, builder.fdiv(gradient, builder.fadd(here.length, shift)))
        new = own.least(own.most(new, zero), cap)
        step = builder.fmul(builder.fsub(new, old), here.y)
        own.store(new, own.line(own.alpha, at))
        # a dual at its bound with a gradient beyond all of the last pass sleeps until the others are done (LIBLINEAR)
        high, low = own.load(own.state[HIGH_BEFORE]), own.load(own.state[LOW_BEFORE])
        awake = own.pick(">", old, zero, present, own.pick(">", gradient, high, zero, present))
        awake = own.pick("<", old, cap, awake, own.pick("<", gradient, low, zero, awake))
        _leave(own, here, projected, step)
        return _news(builder, own.any("!=", step, zero), own.any(">", awake, zero))

    return types.int64(lanes, row, numbers, squared), generate


def _exp(own: Vectors, x: Any) -> Any:
    """e^x for |x| < 80, to about 2e-7: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2]."""
    builder = own.builder
    whole = ir.VectorType(WORD, own.width)
    shifter = own.number(12582912.0)  # 1.5 * 2^23: adding it rounds to a whole number, held in the lowest bits
    scaled = builder.fadd(builder.fmul(x, own.number(1.4426950408889634)), shifter)
    n = builder.fsub(scaled, shifter)
    rest = builder.fsub(x, builder.fmul(n, own.number(0.693359375)))  # ln 2 in two parts; n times the first is exact
    rest = builder.fsub(rest, builder.fmul(n, own.number(0.6931471805599453 - 0.693359375)))
    value = own.number(1.0 / 720.0)
    for factor in (1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0):
        value = builder.fadd(builder.fmul(value, rest), own.number(factor))
    exponent = builder.shl(builder.bitcast(scaled, whole), ir.Constant(whole, [23] * own.width))
    return builder.bitcast(builder.add(builder.bitcast(value, whole), exponent), own.kind)


def _sigmoid(own: Vectors, t: Any) -> Any:
    one = own.number(1.0)
    return own.builder.fdiv(one, own.builder.fadd(one, _exp(own, own.builder.fsub(own.number(0.0), t))))


def _root(own: Vectors, curve: tuple[Any, Any, Any], start: tuple[Any, Any], enough: Any) -> tuple[Any, Any]:
    """(t, sigmoid of t) with |F(t)| <= `enough` in all lanes, F(t) = t + rest + bend sigmoid(t), by Newton's steps.

    F rises, and bends one way left of 0 and the other way right of it. So Newton's steps that stay on the root's side
    go past the root once at most and then run up to it from the side of 0.
    """
    builder = own.builder
    rest, bend, middle = curve
    zero, one = own.number(0.0), own.number(1.0)
    entry, loop, after = builder.block, builder.append_basic_block("newton"), builder.append_basic_block("found")
    builder.branch(loop)
    builder.position_at_end(loop)
    t, share, turn = builder.phi(own.kind), builder.phi(own.kind), builder.phi(LONG)
    value = builder.fadd(builder.fadd(t, rest), builder.fmul(bend, share))
    slope = builder.fadd(one, builder.fmul(bend, builder.fmul(share, builder.fsub(one, share))))
    new = builder.fsub(t, builder.fdiv(value, slope))
    new = own.pick(">", middle, zero, own.least(new, zero), own.most(new, zero))
    new = own.least(own.most(new, own.number(-FAR)), own.number(FAR))
    new_share = _sigmoid(own, new)
    left = own.size(builder.fadd(builder.fadd(new, rest), builder.fmul(bend, new_share)))
    following = builder.add(turn, LONG(1))
    for held, first, then in ((t, start[0], new), (share, start[1], new_share), (turn, LONG(0), following)):
        held.add_incoming(first, entry)
        held.add_incoming(then, loop)
    again = builder.and_(own.any(">", left, enough), builder.icmp_signed("<", following, LONG(_TURNS)))
    builder.cbranch(again, loop, after)
    builder.position_at_end(after)
    return new, new_share


@typed
def logistic_step(typing: Any, lanes: Any, row: Any, numbers: Any, small: Any) -> Any:
    """A step for the logistic loss on `alpha[row, :]`; moves `state` along, returns MOVED and AWAKE.

    A dual a in (0, c) is kept as t = log(a / (c - a)): its gradient is y m + alone a + t, without a logarithm, and the
    minimum over it is the root of t' + y m + alone a + length (c sigmoid(t') - a). Sides are costs with the sign of y;
    `numbers` as in `box_step`. A dual whose gradient is within `small` stays.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        own = Lanes(context, builder, lanes, args[0])
        at = context.cast(builder, args[1], row, types.int64)
        limit = own.spread(context.cast(builder, args[3], small, types.float32))
        here = _row(own, at, args[2])
        zero, one, half, inf = (own.number(value) for value in (0.0, 1.0, 0.5, float("inf")))
        share = _sigmoid(own, here.old)
        dual = builder.fmul(here.size, share)
        margin = builder.fadd(builder.fmul(here.y, here.margin), builder.fmul(here.alone, dual))
        gradient = own.pick(">", here.size, zero, builder.fadd(margin, here.old), zero)
        off = own.size(gradient)
        bend, rest = builder.fmul(here.length, here.size), builder.fsub(margin, builder.fmul(here.length, dual))
        middle = builder.fadd(rest, builder.fmul(half, bend))  # F(0): above 0, the root is below 0
        near = own.pick("<", builder.fmul(here.old, middle), zero, one, zero)
        near = own.pick("<", off, own.number(_NEAR), near, zero)
        start = own.pick(">", near, zero, here.old, zero), own.pick(">", near, zero, share, half)
        enough = own.most(limit, builder.fmul(own.number(0.25), own.least(off, one)))
        enough = own.pick(">", off, limit, enough, inf)
        t, share = _root(own, (rest, bend, middle), start, enough)
        own.store(own.pick(">", off, limit, t, here.old), own.line(own.alpha, at))
        step = builder.fmul(here.y, builder.fsub(builder.fmul(here.size, share), dual))
        _leave(own, here, gradient, own.pick(">", off, limit, step, zero))
        moved = own.any(">", off, limit)
        return _news(builder, moved, moved)

    return types.int64(lanes, row, numbers, small), generate
