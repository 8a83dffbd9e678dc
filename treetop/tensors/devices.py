"""Where training runs: the device, its compute type, its memory, and the processes that share the work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist

from treetop.core import forecast
from treetop.core.errors import ConfigError

CPU_FLOPS = 1.0e11  # of training a network on two cores, in floating-point operations a second
GPU_FLOPS = 1.2e14  # on an H200: lightxml, renee, unidec and cascadexml reach 1.0e14 to 1.8e14 (gpu/house-h200.jsonl)
H200_MULTIPROCESSORS = 132


def pick(name: str = "auto") -> torch.device:
    """The device behind a name: 'auto' is the first GPU if there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, index = name.partition(":")
    if kind not in {"cpu", "cuda"} or (index and not index.isdigit()):
        raise ConfigError(f"--device: unknown device '{name}'. Choose one of auto, cpu, cuda, cuda:0.")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ConfigError("--device: no GPU is visible here. Use --device cpu, or check the driver with nvidia-smi.")
    if kind == "cuda" and index and int(index) >= torch.cuda.device_count():
        last = torch.cuda.device_count() - 1
        raise ConfigError(f"--device: there is no GPU {index} here. Allowed: cuda:0 to cuda:{last}.")
    if kind == "cuda" and not index:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
    return torch.device(name)


def compute_type(device: torch.device) -> torch.dtype:
    """bfloat16 where matrix units like it, float32 on the CPU."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def training_speed(device: torch.device) -> float:
    """Floating-point operations a second that forecasts count with; GPUs by their multiprocessors."""
    if device.type == "cpu":
        return CPU_FLOPS
    return GPU_FLOPS * torch.cuda.get_device_properties(device).multi_processor_count / H200_MULTIPROCESSORS


def seed(number: int, device: torch.device) -> None:
    """Let what `device` draws follow from this number.

    On the CPU `torch.manual_seed` also writes down where it was called from, once for each kind of accelerator that
    might come later, which takes longer than a layer of a small network.
    """
    if device.type == "cpu":
        torch.default_generator.manual_seed(number)
    else:
        torch.manual_seed(number)


def peak_memory(device: torch.device) -> int:
    """Most bytes held so far: of the device, or of this process on the CPU."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return forecast.peak_memory()


def room(device: torch.device) -> int:
    """Bytes of a GPU that this process may have in all: what is free and what it holds."""
    return int(torch.cuda.mem_get_info(device)[0]) + torch.cuda.memory_reserved(device)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out (the CPU allocator raises a plain RuntimeError)."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def free_memory(device: torch.device) -> None:
    """Hand cached blocks back, so that a smaller try finds room."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


@contextmanager
def full_precision() -> Iterator[None]:
    """Multiply float32 matrices in float32 on a GPU, whatever faster types training allows."""
    matrices, layers = torch.backends.cuda.matmul, torch.backends.cudnn  # the latter: convolutions and LSTMs
    before = matrices.allow_tf32, layers.allow_tf32
    matrices.allow_tf32 = layers.allow_tf32 = False
    try:
        yield
    finally:
        matrices.allow_tf32, layers.allow_tf32 = before


@contextmanager
def one_cpu_thread() -> Iterator[None]:
    """Run each of torch's CPU operations on one thread: more would change bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class World:
    """The processes of one training run; a world of one needs no library."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: torch.device) -> World:
        """The world `torchrun` started (its environment says so), else a world of one."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls()
        if not dist.is_initialized():
            dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
        return cls(dist.get_rank(), dist.get_world_size())

    def require_one_process(self, name: str) -> None:
        """Refuse several processes where `name` cannot share its work."""
        if self.size > 1:
            raise ConfigError(f"{name}: works in one process only, not in {self.size}. Leave torchrun out.")

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor added up over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def sum_all(self, tensors: list[torch.Tensor]) -> None:
        """Many tensors of one type added up in one message, in place."""
        if self.size == 1 or not tensors:
            return
        flat = self.sum(torch.cat([tensor.reshape(-1) for tensor in tensors]))
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        torch._foreach_copy_(tensors, [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)])

    def gather(self, tensor: torch.Tensor) -> torch.Tensor:
        """The equally shaped tensors of all processes below each other, in rank order."""
        if self.size == 1:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts)

    def rows(self, tensor: torch.Tensor, n: int) -> torch.Tensor:
        """All `n` rows of a table whose rows are shared out, in every process."""
        if self.size == 1:
            return tensor
        most = -(-n // self.size) + 1
        padded = tensor.new_zeros(most, *tensor.shape[1:])
        padded[: len(tensor)] = tensor
        parts = self.gather(padded).view(self.size, most, *tensor.shape[1:])
        counts = [n * (rank + 1) // self.size - n * rank // self.size for rank in range(self.size)]
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    def all(self, true: bool) -> bool:
        """Whether it is true in every process."""
        return true if self.size == 1 else int(self.sum(torch.tensor(int(true)))) == self.size

    def share(self, n: int) -> tuple[int, int]:
        """The range of `n` rows this process owns."""
        return n * self.rank // self.size, n * (self.rank + 1) // self.size

    def wait(self) -> None:
        """Meet the other processes."""
        if self.size > 1:
            dist.barrier()


ALONE = World()
