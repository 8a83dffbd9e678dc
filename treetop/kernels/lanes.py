"""Sixteen problems side by side: a sparse row meets a (features, 16) float32 matrix, one cache line per feature.

Written as LLVM vectors because numba's own vectoriser keeps such accumulators in memory. Multiply and add stay two
operations (no fused multiply-add), so every machine gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WIDTH = 16
_LONG = ir.IntType(64)
_LANES = ir.VectorType(ir.FloatType(), WIDTH)
MARGIN, BIAS, LOW, HIGH, STEP = range(5)  # rows of a (5, 16) state


def _data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Address of the first element of an array."""
    return context.make_array(kind)(context, builder, value).data


def _spread(builder: Any, number: Any) -> Any:
    """One number in all lanes."""
    nothing = ir.Constant(_LANES, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, nothing, zeros)


def _row_loop(context: Any, builder: Any, signature: Any, args: Any, body: Callable[..., Any], start: Any) -> Any:
    """`for p in range(begin, end): carried = body(address of matrix[index[p]], value[p] in all lanes, carried)`."""
    matrix, index, value, begin, end = (
        _data(context, builder, kind, arg)
        if isinstance(kind, types.Array)
        else context.cast(builder, arg, kind, types.int64)
        for kind, arg in zip(signature.args[:5], args[:5], strict=True)
    )
    entry = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("lanes.head", "lanes.body", "lanes.end"))
    builder.branch(head)
    builder.position_at_end(head)
    at, carried = builder.phi(_LONG), builder.phi(_LANES)
    at.add_incoming(begin, entry)
    carried.add_incoming(start, entry)
    builder.cbranch(builder.icmp_signed("<", at, end), inside, after)
    builder.position_at_end(inside)
    feature = builder.zext(builder.load(builder.gep(index, [at])), _LONG)
    line = builder.gep(matrix, [builder.mul(feature, ir.Constant(_LONG, WIDTH))])
    line = builder.bitcast(line, _LANES.as_pointer())
    carried.add_incoming(body(line, _spread(builder, builder.load(builder.gep(value, [at]))), carried), inside)
    at.add_incoming(builder.add(at, ir.Constant(_LONG, 1)), inside)
    builder.branch(head)
    builder.position_at_end(after)
    return carried


def _state_row(context: Any, builder: Any, signature: Any, args: Any, row: int) -> Any:
    place = builder.gep(_data(context, builder, signature.args[5], args[5]), [ir.Constant(_LONG, row * WIDTH)])
    return builder.bitcast(place, _LANES.as_pointer())


def _typed(function: Any) -> Any:
    """An intrinsic that mypy lets be called from kernels."""
    return intrinsic(function)


@_typed
def add_products(typing: Any, matrix: Any, index: Any, value: Any, begin: Any, end: Any, state: Any) -> Any:
    """state[MARGIN] += sum over p of value[p] * matrix[index[p], :], added in the order of p."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def body(line: Any, number: Any, carried: Any) -> Any:
            return builder.fadd(carried, builder.fmul(builder.load(line, align=4), number))

        address = _state_row(context, builder, signature, args, MARGIN)
        start = builder.load(address, align=4)
        builder.store(_row_loop(context, builder, signature, args, body, start), address, align=4)
        return context.get_dummy_value()

    return types.void(matrix, index, value, begin, end, state), generate


@_typed
def spread_row(typing: Any, matrix: Any, index: Any, value: Any, begin: Any, end: Any, state: Any) -> Any:
    """matrix[index[p], :] += value[p] * state[STEP] for every p."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        step_lanes = builder.load(_state_row(context, builder, signature, args, STEP), align=4)

        def body(line: Any, number: Any, carried: Any) -> Any:
            builder.store(builder.fadd(builder.load(line, align=4), builder.fmul(step_lanes, number)), line, align=4)
            return carried

        _row_loop(context, builder, signature, args, body, step_lanes)
        return context.get_dummy_value()

    return types.void(matrix, index, value, begin, end, state), generate


@_typed
def box_step(typing: Any, duals: Any, sides: Any, row: Any, state: Any, numbers: Any, squared: Any) -> Any:
    """One step of dual coordinate descent on `duals[row, :]` for sixteen problems; moves `state` along.

    The sign of a side is the target y. Its size is 1 / (2 cost) where `squared`, inf meaning absent, else the cost,
    0 meaning absent. `numbers` = (squared length, part of it only this row has, value of the bias feature):
    g = y m - 1 + (shift + alone) a;  a' = min(max(a - g / (length + shift), 0), cap).
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = builder.mul(context.cast(builder, args[2], signature.args[2], types.int64), ir.Constant(_LONG, WIDTH))

        def address(k: int, offset: Any) -> Any:
            place = builder.gep(_data(context, builder, signature.args[k], args[k]), [offset])
            return builder.bitcast(place, _LANES.as_pointer())

        def number(value: float) -> Any:
            return ir.Constant(_LANES, [value] * WIDTH)

        def pick(test: str, left: Any, right: Any, yes: Any, no: Any) -> Any:
            return builder.select(builder.fcmp_ordered(test, left, right), yes, no)

        cells = {k: address(3, ir.Constant(_LONG, k * WIDTH)) for k in range(5)}
        margin, bias, low, high = (builder.load(cells[k], align=4) for k in (MARGIN, BIAS, LOW, HIGH))
        length, alone, constant = (_spread(builder, builder.extract_value(args[4], k)) for k in range(3))
        zero, one, inf = number(0.0), number(1.0), number(float("inf"))
        side, old = builder.load(address(1, at), align=4), builder.load(address(0, at), align=4)
        y = pick(">", side, zero, one, number(-1.0))
        size = builder.fmul(side, y)
        flag = context.cast(builder, args[5], signature.args[5], types.boolean)
        present = builder.select(flag, pick("<", size, inf, one, zero), pick(">", size, zero, one, zero))
        shift = builder.select(flag, pick("<", size, inf, size, one), zero)
        cap = builder.select(flag, pick("<", size, inf, inf, zero), size)
        gradient = builder.fsub(builder.fmul(y, margin), one)
        gradient = builder.fadd(gradient, builder.fmul(builder.fadd(shift, alone), old))
        falling, rising = pick("<", gradient, zero, gradient, zero), pick(">", gradient, zero, gradient, zero)
        projected = pick(">", old, zero, pick("<", old, cap, gradient, rising), falling)
        projected = pick(">", present, zero, projected, zero)
        new = builder.fsub(old, builder.fdiv(gradient, builder.fadd(length, shift)))
        new = pick(">", new, zero, new, zero)
        new = pick("<", new, cap, new, cap)
        step = builder.fmul(builder.fsub(new, old), y)
        builder.store(new, address(0, at), align=4)
        builder.store(builder.fadd(bias, builder.fmul(step, constant)), cells[BIAS], align=4)
        builder.store(pick("<", projected, low, projected, low), cells[LOW], align=4)
        builder.store(pick(">", projected, high, projected, high), cells[HIGH], align=4)
        builder.store(step, cells[STEP], align=4)
        return context.get_dummy_value()

    return types.void(duals, sides, row, state, numbers, squared), generate


@_typed
def add_line(typing: Any, matrix: Any, row: Any, number: Any, groups: Any, sums: Any) -> Any:
    """sums[:] += number * matrix[row, :] where both are `groups` times sixteen long."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        row, groups = (context.cast(builder, args[k], kinds[k], types.int64) for k in (1, 3))
        factor = _spread(builder, context.cast(builder, args[2], kinds[2], types.float32))
        width = builder.mul(groups, ir.Constant(_LONG, WIDTH))
        source = builder.gep(_data(context, builder, kinds[0], args[0]), [builder.mul(row, width)])
        source = builder.bitcast(source, _LANES.as_pointer())
        target = builder.bitcast(_data(context, builder, kinds[4], args[4]), _LANES.as_pointer())
        with cgutils.for_range(builder, groups) as loop:
            place = builder.gep(target, [loop.index])
            line = builder.load(builder.gep(source, [loop.index]), align=4)
            builder.store(builder.fadd(builder.load(place, align=4), builder.fmul(line, factor)), place, align=4)
        return context.get_dummy_value()

    return types.void(matrix, row, number, groups, sums), generate


@_typed
def lowest_bit(typing: Any, word: Any) -> Any:
    """Place of the lowest bit set in a word that is not zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate
