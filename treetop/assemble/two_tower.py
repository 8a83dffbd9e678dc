"""One encoder, two heads, trained on the same batches: texts against label texts, and against free label vectors.

Texts of queries and of the pool's labels run through the encoder together. A batch that memory does not hold is read
in parts: once without a graph for all vectors and their gradients, then part by part with one (gradient caching), so
that the loss and its gradients are those of the whole batch. Several processes read shares of the texts, exchange the
vectors and go back alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from treetop.assemble.inputs import Encoded, Inputs
from treetop.assemble.neural_targets import barred_rows, mean_precision, target_rows, with_barred
from treetop.assemble.tower_heads import ClassifierConfig, TowerHead, TowersConfig, of_length
from treetop.core.dataset import Csr, Dataset
from treetop.kernels import products
from treetop.kernels.full_bce import Positives
from treetop.network.targets import POSITIVES
from treetop.rank.full import EveryLabel, FullTable
from treetop.rank.full_low import LowTable, table_of
from treetop.tensors import devices
from treetop.tensors.devices import ALONE, World
from treetop.tensors.handover import send
from treetop.train.batches import Batch, Loaded, Rows
from treetop.train.clustered import Mining
from treetop.train.contrastive import pool_loss
from treetop.train.optim import AdamConfig
from treetop.train.pools import Known, PoolBatch, even_share, without_positives
from treetop.train.rows import RowTable, Table

TEXTS = {"cpu": 64, "cuda": 2048}  # read at a time outside training
Vectors = tuple[Tensor, Tensor]  # of the dual encoder, of the classifier
Head = Literal["dual", "classifier"]
HEADS: tuple[Head, Head] = ("dual", "classifier")


class TwoTower:
    """The task the loop trains. Row i of `inputs` is document i; behind the documents come the labels' texts."""

    def __init__(
        self,
        inputs: Inputs,
        dataset: Dataset,
        known: Known,
        config: TowersConfig,
        *,
        view: str,
        width: int,
        seed: int = 0,
        world: World = ALONE,
        held_out: Rows | None = None,
        mining: Mining | None = None,
    ) -> None:
        self.inputs, self.device, self.config, self.known, self.world = inputs, inputs.device, config, known, world
        self.view, self.n, self.n_labels = view, len(dataset), dataset.n_labels
        self.held_out = np.zeros(0, np.int64) if held_out is None else held_out
        self.Y: Csr = dataset.Y
        self.targets = target_rows(dataset.Y, self.device)
        self.barred = barred_rows(dataset, self.device)
        self.labels_read = config.dual.weight > 0
        self._tokens, self._slopes, self._draw = 0, list[Vectors](), seed << 32
        d, c = config.dual, config.classifier
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.dual = TowerHead(width, d.dimension, tanh=d.tanh, first=d.first, dropout=d.dropout).to(self.device)
            self.classifier = TowerHead(width, c.dimension, tanh=False, first=c.first, dropout=c.dropout)
            self.classifier.to(self.device)
            self.tables: dict[str, Table] = {} if mining is None else {"mining": mining}
            self.table = self._table(c, seed) if c.weight > 0 else None
        if self.table is not None:
            self.tables["labels"] = self.table
        heads = [head for head, weight in ((self.dual, d.weight), (self.classifier, c.weight)) if weight > 0]
        self.modules: dict[str, tuple[nn.Module, AdamConfig]] = {"heads": (nn.ModuleList(heads), config.learn_heads)}
        self.low: tuple[str, ...] = ()
        if isinstance(inputs, Encoded):
            self.modules = {"encoder": (inputs.encoder, config.learn_encoder), **self.modules}
            self.low = ("encoder",)

    def _table(self, c: ClassifierConfig, seed: int) -> RowTable | FullTable | LowTable:
        width, learn = self.classifier.width, self.config.learn_vectors
        if c.labels == "all":
            how = c.descent.at(self.config.train.batch) if c.memory == "low" else learn
            return table_of(self.n_labels, width, how, self.device, bias=c.bias, world=self.world, seed=seed)
        host = c.place == "host"
        table = RowTable(self.n_labels, width, learn, self.device, bias=c.bias, world=self.world, host=host)
        table.fill(nn.init.xavier_uniform_(torch.empty(self.n_labels, width)))
        return table

    # --- training ---

    def load(self, batch: Batch, static: bool) -> Loaded:
        if not isinstance(batch, PoolBatch):
            raise TypeError(f"a batch without a pool: {batch!r}")
        static = static and (self.barred is None or not isinstance(self.table, EveryLabel))
        message, shape = self.inputs.load(self._share_of(batch, batch.part), static)
        cells = len(batch.everyone) * len(batch.pool)
        positive, value, void = self._pairs(batch, cells, static)
        full = isinstance(self.table, EveryLabel)
        triples, total = self.targets.describe(batch.everyone, static) if full else (batch.rows[:0], 0)
        tensors = [message, positive, value, send(batch.pool, self.device), send(triples, self.device), void]
        self._tokens = self.inputs.tokens(self.n + batch.pool) if self.labels_read else 0
        sizes = (len(batch.everyone), len(batch.pool))
        key = (shape, sizes, len(positive), len(void), total) if static else None
        return Loaded(batch, tuple(tensors), key, (shape, total))

    def _pairs(self, batch: PoolBatch, cells: int, static: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Places of positives, their weights and places of void pairs; rounded up with places behind the matrix."""

        def filled(array: NDArray[np.generic], filling: float) -> Tensor:
            more = max(1, -(-len(array) // POSITIVES)) * POSITIVES - len(array) if static else 0
            return send(np.concatenate([array, np.full(more, filling, array.dtype)]), self.device)

        return filled(batch.positive, cells), filled(batch.value, 0), filled(batch.void, cells)

    def _own(self, batch: PoolBatch) -> Rows:
        """Texts this process reads: its queries, then its share of the pool; both are filled up (`even_share`)."""
        if not self.labels_read:
            return batch.rows
        pool = even_share(batch.pool, self.world.rank, self.world.size)
        return np.concatenate([batch.rows, self.n + pool])

    def _share_of(self, batch: PoolBatch, part: int) -> Rows:
        made: Rows = np.array_split(self._own(batch), batch.parts)[part]
        return made

    def loss(self, loaded: Loaded) -> Tensor:
        batch = loaded.batch
        if not isinstance(batch, PoolBatch):
            raise TypeError(f"a batch without a pool: {batch!r}")
        if batch.parts == 1 and self.world.size == 1:
            pool, every = self._losses(self._vectors(loaded.tensors[0], loaded.facts[0]), loaded)
            return pool + every
        return self._part(batch, loaded)

    def _vectors(self, message: Tensor, shape: object) -> Vectors:
        base = self.inputs.views(message, shape)[self.view]
        c = self.config.classifier
        dual = F.normalize(self.dual(base), dim=1) if self.labels_read else base[:, :0].float()
        own = self.classifier(base) if self.table is not None else base[:, :0].float()
        return dual, of_length(own, c.text_length)

    def _losses(self, vectors: Vectors, loaded: Loaded) -> tuple[Tensor, Tensor]:
        """(loss over the pool, loss over all labels) of all queries' vectors and the pool's labels' behind them."""
        batch, config = loaded.batch, self.config
        n, (_, positive, value, pool, triples, void) = len(batch.everyone), loaded.tensors
        width = len(pool)
        target = torch.zeros(n * width + 1, device=self.device).scatter_(0, positive, value)[:-1].view(n, width)
        barred = None
        if len(void):
            barred = torch.zeros(n * width + 1, dtype=torch.bool, device=self.device)
            barred = barred.index_fill_(0, void, True)[:-1].view(n, width)
        dual, own = vectors
        total = every = torch.zeros((), device=self.device)
        if self.labels_read:
            s = config.dual.scale * (dual[:n] @ dual[n : n + width].T)
            total = total + config.dual.weight * pool_loss(s, target, config.dual.loss, barred)
        if isinstance(self.table, RowTable):
            s = self.products(own[:n], self.table.take(pool))
            total = total + config.classifier.weight * pool_loss(s, target, config.classifier.loss, barred)
        elif self.table is not None:
            every = self._every_label(self.table, own, loaded, triples)
        return total, every

    def products(self, own: Tensor, rows: Tensor) -> Tensor:
        """(queries, labels) margins of the classifier with rows of its table."""
        c = self.config.classifier
        vectors = rows[:, : self.classifier.width]
        vectors = F.dropout(vectors, c.label_dropout, self.classifier.training)
        s = c.scale * (own @ (F.normalize(vectors, dim=1) if c.unit else vectors).T)
        return s + rows[:, -1] if c.bias else s

    def _every_label(self, table: EveryLabel, own: Tensor, loaded: Loaded, triples: Tensor) -> Tensor:
        batch, c = loaded.batch, self.config.classifier
        found = self.targets.targets(triples, len(batch.everyone), loaded.facts[1])
        positives = Positives(found.row, found.column, found.value)
        if self.barred is not None:
            positives = with_barred(positives, self.barred.gather(batch.everyone))
        start = self.world.rank * len(batch.rows)  # the table itself exchanges what processes hold
        h = c.scale * own[start : start + len(batch.rows)]
        return table.score_loss(h, positives, c.weight / batch.total, len(batch.everyone))

    # --- parts of a batch ---

    def _part(self, batch: PoolBatch, loaded: Loaded) -> Tensor:
        """A number whose gradient is this part's share of the whole batch's; the first part carries the loss."""
        value = torch.zeros((), device=self.device)
        if batch.part == 0:
            value = self._whole(batch, loaded)
        self._seed(batch, batch.part)
        made = self._vectors(loaded.tensors[0], loaded.facts[0])
        share = sum((v * slope).sum() for v, slope in zip(made, self._slopes[batch.part], strict=True))
        return share - share.detach() + value  # type: ignore[union-attr]

    def _whole(self, batch: PoolBatch, loaded: Loaded) -> Tensor:
        """The loss, leaving the gradients of every part's vectors behind."""
        found = []
        with torch.no_grad():
            for part in range(batch.parts):
                self._seed(batch, part)
                found.append(self._vectors(*self.inputs.load(self._share_of(batch, part))))
        n, rank = len(batch.rows), self.world.rank
        leaves = []
        for vectors in zip(*found, strict=True):
            held = torch.cat(vectors)
            queries, labels = self.world.gather(held[:n]), self.world.gather(held[n:])
            leaves.append((queries.requires_grad_(), labels.requires_grad_()))
        (dual, names), (own, _) = leaves
        devices.seed(self._draw + batch.step * 1024, self.device)  # all processes draw alike: theirs is one loss
        whole = torch.cat([dual[: len(batch.everyone)], names])  # what fills up gets no gradient
        pool, every = self._losses((whole, own), loaded)
        (pool + every).backward()  # type: ignore[no-untyped-call]
        slopes = []
        for queries, labels in leaves:
            share = len(labels) // self.world.size
            parts = (_slope(queries)[rank * n : (rank + 1) * n], _slope(labels)[rank * share : (rank + 1) * share])
            slopes.append(torch.split(torch.cat(parts), [len(vectors[0]) for vectors in found]))
        self._slopes = list(zip(*slopes, strict=True))
        return pool.detach() / self.world.size + every.detach()

    def _seed(self, batch: PoolBatch, part: int) -> None:
        """Dropout must drop the same in both readings of a part."""
        devices.seed(self._draw + ((batch.step + 1) * 4096 + part) * 1024 + self.world.rank, self.device)

    def tokens(self, rows: Rows) -> int:
        return self.inputs.tokens(rows) + self._tokens

    # --- looking at it ---

    @contextmanager
    def still(self) -> Iterator[None]:
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

    def read(self, rows: Rows, head: Head | None = None) -> Vectors:
        """Vectors of these rows of `inputs` as the weights stand now; of one head alone the other's have no columns."""
        size, made = TEXTS[self.device.type], list[Tensor]()
        with self.still():
            order = np.argsort(self._lengths(rows), kind="stable")
            for start in range(0, max(1, len(rows)), size):
                part = order[start : start + size]
                found = self._vectors(*self.inputs.load(rows[part]))
                held = [v if head in (None, name) else v[:, :0] for name, v in zip(HEADS, found, strict=True)]
                made = made or [v.new_empty(len(rows), v.shape[1]) for v in held]
                place = send(part, self.device)
                for whole, some in zip(made, held, strict=True):  # vectors of all labels are held once
                    whole[place] = some
        return made[0], made[1]

    def _lengths(self, rows: Rows) -> Rows:
        if not isinstance(self.inputs, Encoded):
            return np.zeros(len(rows), np.int64)
        store = self.inputs.store
        return np.asarray(store.lengths[rows] if store.rows is None else store.rows[rows + 1] - store.rows[rows])

    def label_rows(self) -> tuple[Tensor, Tensor]:
        """(vectors, biases) of all labels in the classifier, as margins want them."""
        if self.table is None:
            raise AttributeError("no classifier")
        c, (vectors, bias) = self.config.classifier, self.table.whole()
        return c.scale * (F.normalize(vectors, dim=1) if c.unit else vectors.float()), bias

    def best(self, rows: Rows, k: int) -> NDArray[np.int64]:
        """(rows, k) labels by the sum of the heads that learn."""
        with self.still():
            queries, names = self.read(rows), self.n + np.arange(self.n_labels)
            sides = []
            if self.labels_read:
                sides.append((self.config.dual.scale * queries[0], self.read(names, "dual")[0]))
            bias = None
            if self.table is not None:
                vectors, bias = self.label_rows()
                sides.append((queries[1], vectors))
            q, v = (torch.cat([side[i] for side in sides], 1) for i in (0, 1))
            return products.best(q, v, k, bias)[1].cpu().numpy()

    def validate(self) -> float | None:
        """Mean of P@1, P@3 and P@5 on the held-out rows, in percent."""
        if len(self.held_out) == 0:
            return None
        top = self.best(self.held_out, min(5, self.n_labels))
        return mean_precision(top, self.Y[self.held_out])

    def look(self, rows: Rows, negatives: bool) -> tuple[Tensor, Tensor | None]:
        """Vectors of documents, and their hard negatives: the labels the heads like best less the true ones."""
        with self.still():
            queries = self.read(rows)
            vectors = queries[0] if self.labels_read else F.normalize(queries[1], dim=1)
            found = None
            if negatives:
                pool = self.config.pool
                if self.labels_read:
                    side, bias = queries[0], None
                    table = self.read(self.n + np.arange(self.n_labels), "dual")[0]
                else:
                    side, (table, bias) = queries[1], self.label_rows()
                score, top = products.best(side, table, max(pool.depth, pool.kept), self._seen(bias))
                likely = torch.where(torch.isfinite(score), top, -1)
                found = without_positives(likely, rows, self.known, pool.kept).cpu()
            return vectors, found

    def _seen(self, bias: Tensor | None) -> Tensor:
        """(labels,) the bias, -inf for labels no text carries: they would only ever be pushed away."""
        counts = np.bincount(self.known.indices, minlength=self.n_labels)
        seen = torch.from_numpy(counts > 0).to(self.device)
        return torch.where(seen, torch.zeros(self.n_labels, device=self.device) if bias is None else bias, -torch.inf)


def _slope(leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
