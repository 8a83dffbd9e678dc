"""All that a run trains and a checkpoint keeps: weights, optimiser, averages, the best weights and a few numbers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from treetop.core.errors import TrainingError
from treetop.core.store import Part
from treetop.tensors import devices
from treetop.tensors.handover import fill
from treetop.train.optim import AdamW
from treetop.train.task import Task, TrainConfig
from treetop.train.weight_average import Average


class State:
    """The state of one run; `numbers` are those a checkpoint keeps besides tensors."""

    def __init__(self, task: Task, config: TrainConfig) -> None:
        self.task = task
        self.optimiser = AdamW(task.modules, config.clip_norm, low=task.low, kind=devices.compute_type(task.device))
        tables = {f"{name}.{key}": t for name, table in task.tables.items() for key, t in table.weights().items()}
        self.buffers = _buffers(task)
        self.weights: dict[str, Tensor] = {**self.optimiser.masters, **tables, **self.buffers}
        self.average = Average(list(self.weights.values()), config.average, config.ema_decay)
        self.best: dict[str, Tensor] = {}
        self.numbers: dict[str, Any] = {"step": 0, "micro": config.accumulate, "best": None, "bad": 0}
        self.numbers |= {"averaged": 0, "tokens": 0, "seconds": 0.0}

    def mode(self, learning: bool) -> None:
        """Put all modules into training or evaluation mode."""
        for module, _ in self.task.modules.values():
            module.train(learning)

    def take_average(self) -> None:
        """Take the present weights into their average."""
        self.average.update()
        self.numbers["averaged"] = self.average.count

    def exchange(self) -> None:
        """Swap weights and averages, where there are averages."""
        if self.average.count:
            self.average.exchange()
            self.optimiser.show()

    def keep_best(self) -> None:
        """Keep a copy of the present weights as the best so far."""
        self.best = {name: tensor.detach().clone() for name, tensor in self.weights.items()}

    def finish(self) -> None:
        """Leave the weights to keep in place: the best ones, the averages, or the last."""
        self.exchange()
        if self.best:
            with torch.no_grad():
                for name, tensor in self.weights.items():
                    tensor.copy_(self.best[name])
        for group in self.optimiser.groups:
            for weight, master in zip(group.weights, group.masters, strict=True):
                weight.data = master
        self.mode(False)
        self._check()

    def _check(self) -> None:
        """Refuse a model that the last step broke, whose loss nobody asks for any more."""
        for name, weight in self.weights.items():
            if weight.numel() and not math.isfinite(float(torch.linalg.vector_norm(weight, math.inf))):
                raise TrainingError(
                    f"training: the last step left weights that are not finite ({name}). Lower the learning "
                    "rate, or set clip_norm=1.0."
                )

    # --- checkpoints ---

    @property
    def size(self) -> int:
        """Bytes of a checkpoint."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors().values())

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor that a resumed run needs, by name."""
        tensors = {f"optimiser.{name}": tensor for name, tensor in self.optimiser.state().items()}
        tensors |= self.buffers | {f"task.{name}": tensor for name, tensor in self.task.state().items()}
        for name, table in self.task.tables.items():
            tensors |= {f"table.{name}.{key}": tensor for key, tensor in table.state().items()}
        if self.average.count:
            tensors |= {f"average.{name}": t for name, t in zip(self.weights, self.average.values, strict=True)}
        return tensors | {f"best.{name}": tensor for name, tensor in self.best.items()}

    def divided(self) -> dict[str, int]:
        """Tensors of which a process has a part of the rows, and how many rows there are in all."""
        rows = {(name, key): n for name, table in self.task.tables.items() for key, n in table.divided().items()}
        kinds = ("table", "average", "best")
        return {f"{kind}.{name}.{key}": n for (name, key), n in rows.items() for kind in kinds}

    def restore(self, part: Part) -> None:
        """Continue where a checkpoint was written."""
        self.numbers = dict(part.config)
        self.average.count = int(self.numbers["averaged"])
        if self.average.count:
            self.average.values = [torch.empty_like(tensor) for tensor in self.weights.values()]
        if any(name.startswith("best.") for name in part.arrays):
            self.best = {name: torch.empty_like(tensor) for name, tensor in self.weights.items()}
        for name, tensor in self.tensors().items():
            fill(tensor, part.array(name, to_dtype(tensor), *tensor.shape))
        self.optimiser.show()


def _buffers(task: Task) -> dict[str, Tensor]:
    """What modules store besides their weights: running means of batch norm and the like."""
    buffers: dict[str, Tensor] = {}
    for name, (module, _) in task.modules.items():
        weights, stored = dict(module.named_parameters()), module.state_dict(keep_vars=True)
        found = {key: held for key, held in stored.items() if key not in weights and held.is_floating_point()}
        buffers |= {f"buffer.{name}.{key}": held for key, held in found.items()}
    return buffers


def to_dtype(tensor: Tensor) -> str:
    """The stored type of a tensor, as `Part.array` wants it."""
    names = {torch.float32: "<f4", torch.int32: "<i4", torch.int64: "<i8", torch.bfloat16: "<u2", torch.float64: "<f8"}
    return names[tensor.dtype]
