"""Transfer of arrays between the host and a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def send(array: NDArray[np.generic], device: torch.device) -> Tensor:
    """A host array on the device, without waiting for earlier work there."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def to_array(tensor: Tensor) -> np.ndarray[Any, Any]:
    """A tensor as a numpy array; bfloat16 keeps its bits as uint16."""
    array = tensor.detach()
    if array.dtype == torch.bfloat16:
        array = array.view(torch.int16)
        return array.cpu().numpy().view(np.uint16)
    return array.cpu().numpy()


@torch.no_grad()
def fill(tensor: Tensor, array: np.ndarray[Any, Any]) -> None:
    """Copy a stored array into a tensor of the same shape."""
    source = torch.from_numpy(np.array(array))
    tensor.copy_(source.view(torch.bfloat16) if tensor.dtype == torch.bfloat16 else source)


def to_float32(tensor: Tensor) -> NDArray[np.float32]:
    """A trained tensor as a float32 array."""
    return np.ascontiguousarray(tensor.detach().cpu().float().numpy())  # widened on the host, where there is room
