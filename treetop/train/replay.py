"""CUDA graphs: on a GPU a whole step (gather, forward, backward, update) is replayed as one graph.

A small encoder's step is a thousand short launches; their cost on the host is longer than the work itself. Steps of
the same key run once as they are, then are recorded and replayed; only the batch's message, the learning rates and
the random state change between replays, and all of these live outside the recording.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from treetop.core.errors import TrainingError
from treetop.train.batches import Loaded

MOST = 24  # recordings held


@dataclass(frozen=True, eq=False)
class _Recording:
    graph: Any
    loaded: Loaded
    loss: Tensor


class Replay:
    """Runs `body(loaded)`, which must do a whole step and return its loss."""

    def __init__(self, body: Callable[[Loaded], Tensor], stream: torch.cuda.Stream) -> None:
        self.body, self.stream = body, stream
        self.pool = torch.cuda.graph_pool_handle()
        self.recordings: dict[Hashable, _Recording] = {}
        self.seen: Counter[Hashable] = Counter()

    def run(self, loaded: Loaded) -> Tensor | None:
        """The loss of a replayed step, or None when this one must be run as it is."""
        if loaded.key is None:
            return None
        recording = self.recordings.get(loaded.key)
        if recording is None:
            self.seen[loaded.key] += 1
            if self.seen[loaded.key] < 2 or len(self.recordings) >= MOST:
                return None
            recording = self._record(loaded)
        for static, fresh in zip(recording.loaded.tensors, loaded.tensors, strict=True):
            static.copy_(fresh, non_blocking=True)
        recording.graph.replay()
        return recording.loss.clone()

    def _record(self, loaded: Loaded) -> _Recording:
        static = loaded.cloned()
        graph = torch.cuda.CUDAGraph()
        gc.disable()  # freeing an old graph while one is recorded would spoil it
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                loss = self.body(static).detach()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise TrainingError(
                f"training: a step cannot be captured as a CUDA graph ({reason}). Start again "
                "with train.cuda_graphs=false."
            ) from error
        finally:
            gc.enable()
        recording = self.recordings[loaded.key] = _Recording(graph, static, loss)
        return recording
