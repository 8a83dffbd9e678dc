"""Problems side by side: products of a sparse row with a (features, width) float32 matrix, one line per feature.

Written as LLVM vectors because numba's own vectoriser keeps such accumulators in memory. Multiply and add stay two
operations (no fused multiply-add), so every machine gives the same bits. The width is the length of a tuple, which
the compiler knows: two problems over many rows need an eighth of the memory of sixteen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WIDTH = 16
LONG, WORD = ir.IntType(64), ir.IntType(32)
# rows of a state: sum of the row, bias, lowest and highest gradient of this pass, those of the last one, step
MARGIN, BIAS, LOW, HIGH, LOW_BEFORE, HIGH_BEFORE, STEP = range(7)


def _data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Address of the first element of an array."""
    return context.make_array(kind)(context, builder, value).data


def typed(function: Any) -> Any:
    """An intrinsic that mypy lets be called from kernels."""
    return intrinsic(function)


class Vectors:
    """Writes arithmetic on vectors of one width; a vector holds one float32 of every problem."""

    def __init__(self, context: Any, builder: Any, width: int) -> None:
        self.context, self.builder, self.width = context, builder, width
        self.kind = ir.VectorType(ir.FloatType(), width)

    def number(self, value: float) -> Any:
        """The same constant in all lanes."""
        return ir.Constant(self.kind, [value] * self.width)

    def spread(self, value: Any) -> Any:
        """One number in all lanes."""
        nothing = ir.Constant(self.kind, ir.Undefined)
        first = self.builder.insert_element(nothing, value, ir.Constant(WORD, 0))
        zeros = ir.Constant(ir.VectorType(WORD, self.width), [0] * self.width)
        return self.builder.shuffle_vector(first, nothing, zeros)

    def line(self, start: Any, row: Any) -> Any:
        """Address of a row of a (rows, width) matrix."""
        place = self.builder.gep(start, [self.builder.mul(row, ir.Constant(LONG, self.width))])
        return self.builder.bitcast(place, self.kind.as_pointer())

    def load(self, address: Any) -> Any:
        return self.builder.load(address, align=4)

    def store(self, value: Any, address: Any) -> None:
        self.builder.store(value, address, align=4)

    def pick(self, test: str, left: Any, right: Any, yes: Any, no: Any) -> Any:
        """`yes` in the lanes where the test holds, else `no`."""
        return self.builder.select(self.builder.fcmp_ordered(test, left, right), yes, no)

    def any(self, test: str, left: Any, right: Any) -> Any:
        """Whether the test holds in some lane."""
        bits = ir.IntType(self.width)
        found = self.builder.bitcast(self.builder.fcmp_ordered(test, left, right), bits)
        return self.builder.icmp_unsigned("!=", found, ir.Constant(bits, 0))

    def least(self, left: Any, right: Any) -> Any:
        return self.pick("<", left, right, left, right)

    def most(self, left: Any, right: Any) -> Any:
        return self.pick(">", left, right, left, right)

    def size(self, value: Any) -> Any:
        """Without its sign."""
        return self.most(value, self.builder.fsub(self.number(0.0), value))


class Lanes(Vectors):
    """The lanes of some problems as LLVM values, read out of a named tuple (w, alpha, side, state, width)."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        names = kind.fields
        super().__init__(context, builder, len(kind[names.index("width")]))
        parts = {name: (kind[k], builder.extract_value(value, k)) for k, name in enumerate(names)}
        self.w, self.alpha, self.side, state = (
            _data(context, builder, *parts[name]) for name in ("w", "alpha", "side", "state")
        )
        self.state = [self.line(state, ir.Constant(LONG, k)) for k in range(STEP + 1)]


def _row_loop(lanes: Lanes, signature: Any, args: Any, body: Callable[..., Any], start: Any) -> Any:
    """`for p in range(begin, end): carried = body(address of w[indices[p]], values[p] in all lanes, carried)`."""
    context, builder = lanes.context, lanes.builder
    rows = signature.args[1]
    indices, values = (
        _data(context, builder, rows[k], builder.extract_value(args[1], k))
        for k in (rows.fields.index("indices"), rows.fields.index("values"))
    )
    begin, end = (context.cast(builder, args[k], signature.args[k], types.int64) for k in (2, 3))
    entry = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("lanes.head", "lanes.body", "lanes.end"))
    builder.branch(head)
    builder.position_at_end(head)
    at, carried = builder.phi(LONG), builder.phi(lanes.kind)
    at.add_incoming(begin, entry)
    carried.add_incoming(start, entry)
    builder.cbranch(builder.icmp_signed("<", at, end), inside, after)
    builder.position_at_end(inside)
    line = lanes.line(lanes.w, builder.zext(builder.load(builder.gep(indices, [at])), LONG))
    carried.add_incoming(body(line, lanes.spread(builder.load(builder.gep(values, [at]))), carried), inside)
    at.add_incoming(builder.add(at, ir.Constant(LONG, 1)), inside)
    builder.branch(head)
    builder.position_at_end(after)
    return carried


@typed
def add_products(typing: Any, lanes: Any, rows: Any, begin: Any, end: Any) -> Any:
    """state[MARGIN] += sum over p of rows.values[p] * w[rows.indices[p], :], added in the order of p."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        own = Lanes(context, builder, lanes, args[0])

        def body(line: Any, number: Any, carried: Any) -> Any:
            return builder.fadd(carried, builder.fmul(own.load(line), number))

        start = own.load(own.state[MARGIN])
        own.store(_row_loop(own, signature, args, body, start), own.state[MARGIN])
        return context.get_dummy_value()

    return types.void(lanes, rows, begin, end), generate


@typed
def spread_row(typing: Any, lanes: Any, rows: Any, begin: Any, end: Any) -> Any:
    """w[rows.indices[p], :] += rows.values[p] * state[STEP] for every p."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        own = Lanes(context, builder, lanes, args[0])
        step = own.load(own.state[STEP])

        def body(line: Any, number: Any, carried: Any) -> Any:
            own.store(builder.fadd(own.load(line), builder.fmul(step, number)), line)
            return carried

        _row_loop(own, signature, args, body, step)
        return context.get_dummy_value()

    return types.void(lanes, rows, begin, end), generate


@typed
def add_line(typing: Any, matrix: Any, row: Any, number: Any, groups: Any, sums: Any) -> Any:
    """sums[:] += number * matrix[row, :] where both are `groups` times sixteen long."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        row, groups = (context.cast(builder, args[k], kinds[k], types.int64) for k in (1, 3))
        own = Vectors(context, builder, WIDTH)
        factor = own.spread(context.cast(builder, args[2], kinds[2], types.float32))
        width = builder.mul(groups, ir.Constant(LONG, WIDTH))
        source = builder.gep(_data(context, builder, kinds[0], args[0]), [builder.mul(row, width)])
        source = builder.bitcast(source, own.kind.as_pointer())
        target = builder.bitcast(_data(context, builder, kinds[4], args[4]), own.kind.as_pointer())
        with cgutils.for_range(builder, groups) as loop:
            place = builder.gep(target, [loop.index])
            line = builder.load(builder.gep(source, [loop.index]), align=4)
            builder.store(builder.fadd(builder.load(place, align=4), builder.fmul(line, factor)), place, align=4)
        return context.get_dummy_value()

    return types.void(matrix, row, number, groups, sums), generate


@typed
def lowest_bit(typing: Any, word: Any) -> Any:
    """Place of the lowest bit set in a word that is not zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate
