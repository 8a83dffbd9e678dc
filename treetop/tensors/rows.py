"""Dense views on a device: rows that the features leave there and ranks read there."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treetop.core.types import DeviceView, View
from treetop.tensors.handover import send


class DeviceRows(DeviceView):
    """(rows, width) float32 numbers of a device as a view."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.tensor), self.tensor.shape[1]

    def __getitem__(self, rows: slice) -> DeviceRows:
        return DeviceRows(self.tensor[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.tensor.cpu().numpy().astype(dtype or np.float32, copy=bool(copy))


def rows_on(view: View, device: torch.device) -> Tensor:
    """The rows of a dense view as float32 numbers on a device."""
    if isinstance(view, DeviceRows):
        return view.tensor.to(device)
    return send(np.asarray(view, np.float32), device)
