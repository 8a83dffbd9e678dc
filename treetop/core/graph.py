"""An ONNX graph under construction: every operator returns the name of its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treetop.core.errors import extra
from treetop.core.version import VERSION

OPSET = 20  # with LayerNormalization, Gelu and ScatterElements that adds
IR_VERSION = 10
INLINE = 1 << 30  # bytes of constants up to which a graph is one file; protocol buffers end at two gigabytes


class Graph:
    """Operators in order, constants, inputs and outputs. Values are known by name."""

    def __init__(self) -> None:
        self._onnx = extra("onnx", "onnx")
        self._nodes: list[Any] = []
        self._constants: dict[str, NDArray[Any]] = {}
        self._scalars: dict[tuple[Any, ...], str] = {}
        self._inputs: dict[str, Any] = {}
        self._outputs: list[Any] = []

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The result of an operator."""
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, n: int, *inputs: str, **attributes: Any) -> list[str]:
        """The `n` results of an operator."""
        outputs = [f"{kind}_{len(self._nodes)}" + (f"_{i}" if n > 1 else "") for i in range(n)]
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, outputs, **attributes))
        return outputs

    def constant(self, values: Any, dtype: Any = None) -> str:
        """The name of a constant; small ones that are the same share one."""
        array = np.ascontiguousarray(np.asarray(values, dtype))
        array = array.reshape(np.shape(values))  # `ascontiguousarray` makes vectors of scalars
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= 16 else None
        if key is not None and key in self._scalars:
            return self._scalars[key]
        name = f"constant_{len(self._constants)}"
        self._constants[name] = array
        if key is not None:
            self._scalars[key] = name
        return name

    def ints(self, *values: int) -> str:
        """A constant vector of int64, as shapes and axes are."""
        return self.constant(values, np.int64)

    def number(self, value: float) -> str:
        """A float32 scalar."""
        return self.constant(np.float32(value))

    def input(self, name: str, dtype: Any, shape: list[str | int]) -> str:
        """An input by its name; the same name is the same input."""
        if name not in self._inputs:
            self._inputs[name] = self._value(name, dtype, shape)
        return name

    def output(self, name: str, value: str, dtype: Any, shape: list[str | int]) -> None:
        """Give a value out under a name."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._value(name, dtype, shape))

    def _value(self, name: str, dtype: Any, shape: list[str | int]) -> Any:
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self._onnx.helper.make_tensor_value_info(name, kind, shape)

    # --- what several operators do together ---------------------------------------------------------------------

    def reshape(self, value: str, *shape: int) -> str:
        """0 keeps a dimension, -1 takes what is left."""
        return self.op("Reshape", value, self.ints(*shape))

    def size(self, value: str, axis: int) -> str:
        """(1,) the length of an axis."""
        return self.op("Shape", value, start=axis, end=axis + 1)

    def cast(self, value: str, dtype: Any) -> str:
        return self.op("Cast", value, to=self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def affine(self, value: str, weight: NDArray[Any], bias: NDArray[Any] | None) -> str:
        """A linear layer: value @ weight.T + bias."""
        product = self.op("MatMul", value, self.constant(weight.T, np.float32))
        return product if bias is None else self.op("Add", product, self.constant(bias, np.float32))

    def unit(self, value: str, axis: int = 1) -> str:
        """Rows at length 1; a row of zeros stays as it is."""
        length = self.op("ReduceL2", value, self.ints(axis), keepdims=1)
        return self.op("Div", value, self.op("Max", length, self.number(1e-12)))

    # --- the file -----------------------------------------------------------------------------------------------

    def save(self, file: Path) -> None:
        """Write the graph and check it; large constants go to a second file beside it."""
        apart = sum(array.nbytes for array in self._constants.values()) > INLINE
        self._onnx.save_model(self._model(), str(file), save_as_external_data=apart, location=f"{file.name}.data")
        self._onnx.checker.check_model(str(file))

    def to_bytes(self) -> bytes:
        """The graph as a runtime loads it from memory."""
        written: bytes = self._model().SerializeToString()
        return written

    def _model(self) -> Any:
        helper, numpy_helper = self._onnx.helper, self._onnx.numpy_helper
        tensors = [numpy_helper.from_array(array, name) for name, array in self._constants.items()]
        graph = helper.make_graph(self._nodes, "treetop", list(self._inputs.values()), self._outputs, tensors)
        return helper.make_model(
            graph, producer_name="treetop", producer_version=VERSION, ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET)],
        )  # fmt: skip
