"""An encoder and heads trained on batches whose rows share a pool of labels: the task of dual encoders.

Texts of queries and, where a head reads them, of the pool's labels run through the encoder together. A loss over a pool
needs the whole batch, so this is a second task next to `network.py`, over the same vectors and losses: a batch that
memory does not hold is read in parts, once without a graph for all vectors and their gradients, then part by part with
one (gradient caching), and several processes exchange vectors and go back alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from treetop.core.dataset import Csr, Dataset
from treetop.network.inputs import Encoded, Inputs
from treetop.network.losses.pool import pool_loss
from treetop.network.mining import top_labels
from treetop.network.pool_heads import PoolHead
from treetop.network.samplers.clustered import Mining
from treetop.network.samplers.pools import PoolBatch, PoolTargets, even_share
from treetop.network.targets import POSITIVES, BatchTargets, TargetRows
from treetop.network.vectors.full import EveryLabel
from treetop.network.watch import Watched
from treetop.tensors import devices
from treetop.tensors.devices import ALONE, World
from treetop.tensors.handover import send
from treetop.train.batches import Batch, Loaded, Message, Rows
from treetop.train.optim import AdamConfig
from treetop.train.task import Table, Validation

TEXTS = {"cpu": 64, "cuda": 2048}  # read at a time outside training
Vectors = Mapping[str, Tensor]  # per head


class PoolNetwork:
    """The task the loop trains. Row i of `inputs` is document i; label texts follow the documents."""

    def __init__(
        self, inputs: Inputs, dataset: Dataset, known: PoolTargets, heads: Sequence[PoolHead], mining: Mining, *,
        view: str, encoder: AdamConfig, learn: AdamConfig, seed: int = 0, world: World = ALONE,
        watched: Watched | None = None,
    ) -> None:  # fmt: skip
        self.inputs, self.device, self.known, self.world = inputs, inputs.device, known, world
        self.heads, self.mining = list(heads), mining
        self.view, self.n, self.n_labels = view, len(dataset), dataset.n_labels
        self.watched = watched
        self.Y: Csr = dataset.Y
        self.targets = TargetRows(dataset.Y, self.device)
        ignored = dataset.ignored
        self.ignored = None if ignored is None else TargetRows(ignored, self.device)
        self.labels_read = any(head.reads_labels for head in heads)
        self.full = any(isinstance(head.table, EveryLabel) for head in heads)
        self._tokens, self._slopes, self._draw = 0, list[Vectors](), seed << 32
        self.tables: dict[str, Table] = {head.name: head.table.table for head in heads if head.table is not None}
        projections = nn.ModuleList([head.projection for head in heads]).to(self.device)
        self.modules: dict[str, tuple[nn.Module, AdamConfig]] = {"heads": (projections, learn)}
        self.low: tuple[str, ...] = ()
        if isinstance(inputs, Encoded):
            self.modules = {"encoder": (inputs.encoder, encoder), **self.modules}
            self.low = ("encoder",)
        if inputs.pools is not None:
            self.modules = {"windows": (inputs.pools, learn), **self.modules}

    def state(self) -> Mapping[str, Tensor]:
        """Clusters and hard negatives as last found."""
        return self.mining.state()

    # --- training ---

    def load(self, batch: Batch, static: bool) -> Loaded:
        pooled = _pooled(batch)
        static = static and (self.ignored is None or not self.full)
        parts = {
            "inputs": self.inputs.load(self._share_of(pooled, pooled.part), static),
            "pool": _pool_message(pooled, self.device, static),
        }
        if self.full:
            parts["targets"] = self.targets.load(batch.everyone, static)
        self._tokens = self.inputs.tokens(self.n + pooled.pool) if self.labels_read else 0
        return Loaded(batch, parts, static)

    def _read_rows(self, batch: PoolBatch) -> Rows:
        """Texts this process reads: its queries, then its share of the pool; both are filled up (`even_share`)."""
        if not self.labels_read:
            return batch.rows
        pool = even_share(batch.pool, self.world.rank, self.world.size)
        return np.concatenate([batch.rows, self.n + pool])

    def _share_of(self, batch: PoolBatch, part: int) -> Rows:
        return np.array_split(self._read_rows(batch), batch.parts)[part]

    def loss(self, loaded: Loaded) -> Tensor:
        batch = _pooled(loaded.batch)
        if batch.parts == 1 and self.world.size == 1:
            pool, every = self._losses(self._vectors(loaded.parts["inputs"]), loaded)
            return pool + every
        return self._part_loss(batch, loaded)

    def _vectors(self, message: Message) -> Vectors:
        base = self.inputs.views(message)[self.view]
        return {head.name: head.vectors(base) for head in self.heads}

    def _losses(self, vectors: Vectors, loaded: Loaded) -> tuple[Tensor, Tensor]:
        """(loss over the pool, loss over all labels) of the queries' vectors, followed by the pool's labels'."""
        message, n = loaded.parts["pool"], len(loaded.batch.everyone)
        width = len(message["labels"])
        cells = torch.zeros(n * width + 1, device=self.device)
        target = cells.scatter_(0, message["positive"], message["value"])[:-1].view(n, width)
        ignored = None
        if len(message["ignored"]):
            void = torch.zeros(n * width + 1, dtype=torch.bool, device=self.device)
            ignored = void.index_fill_(0, message["ignored"], True)[:-1].view(n, width)
        total = every = torch.zeros((), device=self.device)
        for head in self.heads:
            own, table = vectors[head.name], head.table
            if isinstance(table, EveryLabel):
                h = head.scale * self._own_rows(own, loaded.batch)
                scale, count = head.weight / loaded.batch.total, len(loaded.batch.everyone)
                every = every + table.score_loss(h, self._known(loaded).full(), scale, count)
                continue
            labels = own[n : n + width] if table is None else table.take(message["labels"])
            total = total + head.weight * pool_loss(head.logits(own[:n], labels), target, head.loss, ignored)
        return total, every

    def _own_rows(self, queries: Tensor, batch: Batch) -> Tensor:
        """The rows of this process among all queries' vectors."""
        start = self.world.rank * len(batch.rows)
        return queries[start : start + len(batch.rows)]

    def _known(self, loaded: Loaded) -> BatchTargets:
        ignored = None if self.ignored is None else self.ignored.gather(loaded.batch.everyone)
        return BatchTargets(self.targets.targets(loaded.parts["targets"]), None, ignored)

    # --- parts of a batch ---

    def _part_loss(self, batch: PoolBatch, loaded: Loaded) -> Tensor:
        """A number whose gradient is this part's share of the whole batch's; the first part carries the loss."""
        value = torch.zeros((), device=self.device)
        if batch.part == 0:
            value = self._whole(batch, loaded)
        self._seed(batch, batch.part)
        vectors_, slopes = self._vectors(loaded.parts["inputs"]), self._slopes[batch.part]
        share = torch.stack([(vectors_[name] * slopes[name]).sum() for name in vectors_]).sum()
        return share - share.detach() + value

    def _whole(self, batch: PoolBatch, loaded: Loaded) -> Tensor:
        """The loss, leaving the gradients of every part's vectors behind."""
        passes = []
        with torch.no_grad():
            for part in range(batch.parts):
                self._seed(batch, part)
                passes.append(self._vectors(self.inputs.load(self._share_of(batch, part))))
        n, sizes = len(batch.rows), [len(next(iter(vectors.values()))) for vectors in passes]
        leaves: dict[str, tuple[Tensor, Tensor]] = {}
        for name in passes[0]:
            joined = torch.cat([vectors[name] for vectors in passes])
            queries, labels = self.world.gather(joined[:n]), self.world.gather(joined[n:])
            leaves[name] = queries.requires_grad_(), labels.requires_grad_()
        devices.seed(self._draw + batch.step * 1024, self.device)  # all processes draw alike: theirs is one loss
        count = len(batch.everyone)  # what fills up gets no gradient
        whole = {name: torch.cat([queries[:count], labels]) for name, (queries, labels) in leaves.items()}
        pool, every = self._losses(whole, loaded)
        (pool + every).backward()
        split = {name: torch.split(_own_slopes(self.world, *pair, n), sizes) for name, pair in leaves.items()}
        self._slopes = [{name: parts[i] for name, parts in split.items()} for i in range(batch.parts)]
        return pool.detach() / self.world.size + every.detach()

    def _seed(self, batch: PoolBatch, part: int) -> None:
        """Dropout must drop the same in both readings of a part."""
        devices.seed(self._draw + ((batch.step + 1) * 4096 + part) * 1024 + self.world.rank, self.device)

    def tokens(self, rows: Rows) -> int:
        return self.inputs.tokens(rows) + self._tokens

    # --- looking at it ---

    def head(self, name: str) -> PoolHead | None:
        """The head of this name, where there is one."""
        return next((head for head in self.heads if head.name == name), None)

    @contextmanager
    def eval_mode(self) -> Iterator[None]:
        """Dropout off, no graph."""
        modules = [module for module, _ in self.modules.values()]
        before = [module.training for module in modules]
        for module in modules:
            module.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            for module, was in zip(modules, before, strict=True):
                module.train(was)

    def read(self, rows: Rows, head: str, inputs: Inputs | None = None) -> Tensor:
        """(rows, width) vectors of these rows of the network's inputs, or of others, by one head as it is now.

        All processes ask for the same rows; each reads its share, and all get the same numbers.
        """
        inputs = inputs or self.inputs
        chosen, size, output = self.head(head), TEXTS[self.device.type], None
        if chosen is None:
            raise ValueError(f"no head is called '{head}'")
        low, high = self.world.share(len(rows))
        own = rows[low : max(high, low + 1)]  # where rows are fewer than processes, some read one that is not theirs
        with self.eval_mode():
            order = np.argsort(inputs.lengths[own], kind="stable")
            for start in range(0, max(1, len(own)), size):
                part = order[start : start + size]
                vectors = chosen.vectors(inputs.views(inputs.load(own[part]))[self.view])
                if output is None:  # vectors of all labels are held once
                    output = vectors.new_empty(len(own), vectors.shape[1])
                output[send(part, self.device)] = vectors
        if output is None:
            raise ValueError("nothing was read")
        return self.world.rows(output[: high - low], len(rows))

    @property
    def names(self) -> Rows:
        """Rows of `inputs` that hold the labels' texts."""
        return self.n + np.arange(self.n_labels)

    def validate(self) -> Validation | None:
        """Figures on the documents that are watched."""
        if (seen := self.watched) is None:
            return None
        return seen.validation(top_labels(self, seen.rows, seen.k, seen.inputs))


def _pool_message(batch: PoolBatch, device: torch.device, static: bool) -> Message:
    """The pool, places of positives with their weights and places of ignored pairs.

    Where shapes are static, indices are padded with ones beyond the matrix.
    """
    cells = len(batch.everyone) * len(batch.pool)

    def filled(array: NDArray[np.generic], filling: float) -> Tensor:
        more = max(1, -(-len(array) // POSITIVES)) * POSITIVES - len(array) if static else 0
        return send(np.concatenate([array, np.full(more, filling, array.dtype)]), device)

    tensors = {
        "labels": send(batch.pool, device),
        "positive": filled(batch.positive, cells),
        "value": filled(batch.value, 0),
        "ignored": filled(batch.ignored, cells),
    }
    sizes = (len(batch.everyone), len(batch.pool))
    return Message(tensors, (*sizes, len(tensors["positive"]), len(tensors["ignored"])))


def _own_slopes(world: World, queries: Tensor, labels: Tensor, n: int) -> Tensor:
    """The share of this process in the gradients over all queries' and labels' vectors."""
    rank, share = world.rank, len(labels) // world.size
    return torch.cat([_slope(queries)[rank * n : (rank + 1) * n], _slope(labels)[rank * share : (rank + 1) * share]])


def _pooled(batch: Batch) -> PoolBatch:
    if not isinstance(batch, PoolBatch):
        raise TypeError(f"a batch without a pool: {batch!r}")
    return batch


def _slope(leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
