"""Memory prefetch: a walk through a large model knows in advance what it will read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array


@intrinsic
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of `array.flat[index]`; any index is allowed."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        held = make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(held.data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        call = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0")
        builder.call(call, [place, number(0), number(3), number(1)])  # to read, into all caches, data
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


prefetch = cast("Callable[[Any, Any], None]", _prefetch)  # called from kernels, where the context goes without saying
