"""AdamW over named groups with float32 masters of low-precision weights, schedules, clipping; never waits for a GPU."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from treetop.core.config import setting


@dataclass(frozen=True, kw_only=True)
class AdamConfig:
    """How one group of weights learns."""

    lr: float = setting(1e-4, "peak learning rate", low=1e-9, high=10.0)  # a step's size
    weight_decay: float = setting(0.01, "decoupled weight decay (AdamW); never on biases and norms", low=0.0)
    beta1: float = setting(0.9, "decay rate of the first moment", low=0.0, high=0.9999)
    beta2: float = setting(0.999, "decay rate of the second moment", low=0.0, high=0.999999)
    eps: float = setting(1e-8, "added to the square root of the second moment", low=1e-15, high=1.0)


@dataclass(frozen=True, kw_only=True)
class DescentConfig:
    """How bfloat16 label vectors learn: plain SGD, no moments."""

    lr: float = setting(8.0, "peak learning rate for mini-batches of 1,024", low=1e-6, high=1e6)
    weight_decay: float = setting(0.0, "decoupled weight decay; never on biases", low=0.0)

    def at(self, batch: int) -> DescentConfig:
        """As it is used with `batch` rows, of whose mean a step is made: a row moves vectors as far in any batch."""
        return replace(self, lr=self.lr * batch / 1024)


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """Learning-rate schedule over the steps."""

    kind: Literal["constant", "linear", "cosine"] = setting("constant", "learning-rate schedule after warm-up")
    warmup: float = setting(0.0, "fraction of the steps for warm-up", low=0.0, high=1.0)
    anneal: float = setting(0.0, "fraction of the steps for the final decay (constant only)", low=0.0, high=1.0)


def rate(schedule: ScheduleConfig, step: int, total: int) -> float:
    """The factor on every learning rate at `step` of `total`.

    constant: cosine ramp from a tenth, flat, cosine fall to a thousandth over the last `anneal`; linear and cosine:
    straight rise from nothing, then straight or cosine fall to nothing.
    """
    rising = round(schedule.warmup * total)
    if schedule.kind == "constant":
        falling = round(schedule.anneal * total)
        if step < rising:
            return _between(0.1, 1.0, (step + 1) / rising)
        if step >= total - falling:
            return _between(1.0, 0.001, (step + 1 - (total - falling)) / falling)
        return 1.0
    if step < rising:
        return (step + 1) / (rising + 1)
    left = (total - step) / max(1, total - rising)
    return left if schedule.kind == "linear" else 0.5 * (1.0 - math.cos(math.pi * left))


def _between(start: float, end: float, t: float) -> float:
    return end + (start - end) * 0.5 * (1.0 + math.cos(math.pi * min(1.0, t)))


class Rates:
    """Learning rates for the update: numbers on the CPU, tensors on a GPU that a CUDA graph can read."""

    def __init__(self, tops: Sequence[float], device: torch.device) -> None:
        self.tops = list(tops)
        self.now: list[Any] = list(tops)
        if device.type == "cuda":
            self._held = torch.tensor(self.tops, device=device)
            self.now = list(self._held)

    def set(self, factor: float) -> None:
        """Every rate its top times `factor`."""
        if self.now and isinstance(self.now[0], Tensor):
            fresh = torch.tensor([top * factor for top in self.tops])
            self._held.copy_(fresh.pin_memory(), non_blocking=True)
        else:
            self.now = [top * factor for top in self.tops]


@dataclass
class Group:
    """Weights that share a learning rate; `masters` are their float32 master copies."""

    name: str
    config: AdamConfig
    weight_decay: float
    names: list[str]
    weights: list[nn.Parameter]
    masters: list[Tensor]
    first: list[Tensor]
    second: list[Tensor]
    grads: list[Tensor]  # float32, only where weights are of low precision


class AdamW:
    """Decoupled weight decay Adam; one fused update over all weights of a group.

    Modules named in `low` compute in the type `kind` from now on; their float32 weights become masters. A weight that
    two modules have learns with the first.
    """

    def __init__(
        self,
        modules: Mapping[str, tuple[nn.Module, AdamConfig]],
        clip: float = 0.0,
        *,
        low: Collection[str] = (),
        kind: torch.dtype = torch.float32,
    ) -> None:
        self.clip = clip
        self._collected = False
        self.groups: list[Group] = []
        seen = set[int]()
        for name, (module, config) in modules.items():
            learned = [(key, w) for key, w in module.named_parameters() if w.requires_grad and id(w) not in seen]
            seen |= {id(weight) for _, weight in learned}
            found = [(f"{name}.{key}", weight) for key, weight in learned]
            matrices = [(key, weight) for key, weight in found if weight.ndim > 1]
            vectors = [(key, weight) for key, weight in found if weight.ndim <= 1]  # biases, norms: no decay
            for part, decay in ((matrices, config.weight_decay), (vectors, 0.0)):
                if part:
                    self.groups.append(_group(name, config, decay, part, kind if name in low else torch.float32))
        device = self.groups[0].weights[0].device if self.groups else torch.device("cpu")
        self.steps = torch.zeros((), dtype=torch.float32, device=device)
        self.rates = Rates([group.config.lr for group in self.groups], device)

    @property
    def masters(self) -> dict[str, Tensor]:
        """Every weight by name, in float32."""
        return {name: tensor for group in self.groups for name, tensor in zip(group.names, group.masters, strict=True)}

    def state(self) -> dict[str, Tensor]:
        """Everything a later run needs to go on: weights, moments, step count."""
        tensors = {f"weight.{name}": tensor for name, tensor in self.masters.items()}
        for group in self.groups:
            for name, first, second in zip(group.names, group.first, group.second, strict=True):
                tensors[f"first.{name}"], tensors[f"second.{name}"] = first, second
        return {**tensors, "steps": self.steps}

    @torch.no_grad()
    def show(self) -> None:
        """Copy the masters into the weights that compute."""
        for group in self.groups:
            if group.grads:
                torch._foreach_copy_(list[Tensor](group.weights), group.masters)

    @torch.no_grad()
    def collect(self) -> None:
        """Add the gradients of a micro-batch to the float32 ones; call it after every backward."""
        for group in self.groups:
            if not group.grads:
                continue
            pairs = [(g, w.grad) for g, w in zip(group.grads, group.weights, strict=True) if w.grad is not None]
            sums, fresh = [g for g, _ in pairs], [grad for _, grad in pairs]
            if self._collected and pairs:
                wide = [torch.empty_like(g) for g in sums]
                torch._foreach_copy_(wide, fresh)
                torch._foreach_add_(sums, wide)
            elif not self._collected:  # one launch for all, of whatever type
                if len(pairs) < len(group.grads):
                    torch._foreach_zero_(group.grads)
                if pairs:
                    torch._foreach_copy_(sums, fresh)
            for weight in group.weights:
                weight.grad = None
        self._collected = True

    def gradients(self, group: Group) -> list[Tensor]:
        """Float32 gradients of a group; zeros for weights the loss did not touch."""
        if group.grads:
            return group.grads
        return [w.grad if w.grad is not None else torch.zeros_like(w) for w in group.weights]

    def all_gradients(self) -> list[Tensor]:
        """Every float32 gradient, for adding up over processes."""
        for group in self.groups:
            if not group.grads:
                for weight in group.weights:
                    if weight.grad is None:
                        weight.grad = torch.zeros_like(weight)
        return [grad for group in self.groups for grad in self.gradients(group)]

    def forget(self) -> None:
        """Drop all gradients."""
        self._collected = False
        for group in self.groups:
            for weight in group.weights:
                weight.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One update with the learning rates set last."""
        if not self.groups:
            return
        self.steps += 1
        for group, rate_ in zip(self.groups, self.rates.now, strict=True):
            grads = self.gradients(group)
            if self.clip > 0:
                _clip(grads, self.clip)
            torch._fused_adamw_(
                group.masters, grads, group.first, group.second, [], [self.steps] * len(grads),
                lr=rate_, beta1=group.config.beta1, beta2=group.config.beta2,
                weight_decay=group.weight_decay, eps=group.config.eps, amsgrad=False, maximize=False,
            )  # fmt: skip
        self.show()
        self.forget()


def _group(
    name: str, config: AdamConfig, decay: float, part: Sequence[tuple[str, nn.Parameter]], kind: torch.dtype
) -> Group:
    weights = [weight for _, weight in part]
    masters = [weight.detach().float() for weight in weights]
    low = kind != torch.float32
    if low:
        for weight, master in zip(weights, masters, strict=True):
            weight.data = master.to(kind)
    return Group(
        name,
        config,
        decay,
        [key for key, _ in part],
        weights,
        masters,
        [torch.zeros_like(m) for m in masters],
        [torch.zeros_like(m) for m in masters],
        [torch.zeros_like(m) for m in masters] if low else [],
    )


def _clip(grads: list[Tensor], limit: float) -> None:
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    torch._foreach_mul_(grads, (limit / (norm + 1e-6)).clamp(max=1.0))
