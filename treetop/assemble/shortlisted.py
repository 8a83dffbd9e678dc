"""Label vectors trained on shortlists found beforehand: a text's own labels, then the nearest others (DeepXML's way).

Unlike the levels of `neural_tree.py` the candidates are single labels, fixed for a text before training begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from treetop.assemble.inputs import Encoded
from treetop.assemble.neural_fit import Prepared, Trained, learn, once, plan_of
from treetop.assemble.neural_start import log_odds
from treetop.assemble.neural_tree import Branch, LevelPlan, TreeConfig, array
from treetop.core.dataset import Csr, Dataset
from treetop.core.store import Part
from treetop.core.types import Floats, Level, Ranking
from treetop.core.work import Job
from treetop.kernels import products
from treetop.predict.beam import step
from treetop.rank.head import Head
from treetop.train.batches import Batch, Loaded, Rows, send
from treetop.train.devices import ALONE, World
from treetop.train.losses import row_loss
from treetop.train.optim import AdamConfig
from treetop.train.rows import RowTable, Table
from treetop.train.task import TrainConfig

Ids = NDArray[np.int32]
BLOCK = 4_096  # texts whose near labels are held at a time


@dataclass(frozen=True, eq=False)
class Own:
    """The labels of each row, the surest first, so that the least sure are left out of a short list."""

    Y: Csr  # (rows, labels) columns of a row in that order, not ascending
    relevance: Csr | None  # in the same order
    barred: NDArray[np.int64]  # row * labels + label of pairs that are neither positives nor negatives

    @classmethod
    def of(cls, dataset: Dataset) -> Own:
        Y, n, pairs = dataset.Y, dataset.n_labels, dataset.filter_pairs
        barred = np.zeros(0, np.int64) if pairs is None else pairs[:, 0].astype(np.int64) * n + pairs[:, 1]
        rows = np.repeat(np.arange(len(dataset), dtype=np.int64), np.diff(Y.indptr))
        kept = np.flatnonzero((Y.data > 0) & ~np.isin(rows * n + Y.indices, barred))
        kept = kept[np.lexsort((Y.indices[kept], -Y.data[kept], rows[kept]))]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=len(dataset)))])

        def ordered(matrix: Csr) -> Csr:
            return sparse.csr_matrix((matrix.data[kept], matrix.indices[kept], indptr), matrix.shape)

        return cls(ordered(Y), None if dataset.relevance is None else ordered(dataset.relevance), barred)


def nearest(H: Floats, level: Level, device: torch.device) -> Ranking:
    """The labels each of these vectors is near to, the nearest first.

    On the CPU as the level finds them; a GPU looks at all in less time, and labels without texts it leaves out.
    """
    if device.type == "cpu" or not isinstance(level.rank, Head):
        blocks = [H[start : start + BLOCK] for start in range(0, len(H), BLOCK)]
        return Ranking.concat([step(level, {level.view: block}, None, level.beam) for block in blocks])
    return all_met(H, level.rank, level.beam, device)


def all_met(H: Floats, head: Head, keep: int, device: torch.device) -> Ranking:
    """The nearest of all labels that have texts."""
    seen = np.flatnonzero(np.isfinite(head.bias))
    queries, table = (torch.from_numpy(np.ascontiguousarray(x)).to(device) for x in (H, head.weight[seen]))
    score, rows = (x.cpu().numpy() for x in products.best(queries, table, keep))
    indptr = np.arange(len(H) + 1, dtype=np.int64) * rows.shape[1]
    return Ranking(indptr, seen[rows].astype(np.int32).ravel(), score.ravel(), score.ravel())


def shortlists(own: Own, found: Ranking, width: int) -> Ids:
    """(rows, width) labels of each row: its own first, then those found for it; -1 stands behind the last."""
    Y = own.Y
    n_rows, n = Y.shape
    mine = np.repeat(np.arange(n_rows, dtype=np.int64), np.diff(Y.indptr))
    rows = np.repeat(np.arange(n_rows, dtype=np.int64), np.diff(found.indptr))
    free = ~np.isin(rows * n + found.ids, np.concatenate([mine * n + Y.indices, own.barred]))
    rows, ids = rows[free], found.ids[free]
    made = np.full((n_rows, width), -1, np.int32)
    first = np.diff(Y.indptr).astype(np.int64)
    for at, what, start in ((mine, Y.indices, np.zeros(n_rows, np.int64)), (rows, ids, first)):
        column = start[at] + _within(at, n_rows)
        fits = column < width
        made[at[fits], column[fits]] = what[fits]
    return made


def _within(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Place of each entry inside its row; rows ascend."""
    counts = np.bincount(rows, minlength=n)
    return np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)


class Shortlisted:
    """The task the loop trains: one head over the labels of fixed shortlists."""

    low = ("encoder",)

    def __init__(
        self, inputs: Encoded, own: Own, learned: Rows, lists: Ids, plan: LevelPlan, config: TreeConfig, *, seed: int,
        world: World = ALONE,
    ) -> None:  # fmt: skip
        """`learned` names the rows that are trained on."""
        self.inputs, self.lists, self.plan, self.config, self.world = inputs, lists, plan, config, world
        self.device = inputs.device
        self.Y, self.relevance = own.Y, own.relevance
        self.learned: Csr = own.Y[learned]
        n = own.Y.shape[1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.branch = Branch(plan).to(self.device)
            vectors = nn.init.xavier_uniform_(torch.empty(n, self.branch.width))
        self.table = RowTable(n, self.branch.width, config.head, self.device, bias=config.bias, world=world)
        bias = log_odds(self.learned, np.arange(n), n)
        share = max(1e-6, min(1.0, lists.shape[1] / n))  # a label on the list is likelier
        bias = np.minimum(bias - np.float32(np.log(share)), np.float32(0.0))
        self.table.fill(vectors.to(self.device), torch.from_numpy(bias).to(self.device))

    @property
    def modules(self) -> Mapping[str, tuple[nn.Module, AdamConfig]]:
        return {"encoder": (self.inputs.encoder, self.config.encoder), "heads": (self.branch, self.config.head)}

    @property
    def tables(self) -> Mapping[str, Table]:
        return {"labels": self.table}

    def load(self, batch: Batch, static: bool) -> Loaded:
        message, shape = self.inputs.load(batch.rows, static)
        ids = self.lists[batch.rows].astype(np.int64)
        values = self._values(batch.rows, self.Y)
        tensors = [message, *(send(part, self.device) for part in (ids, values))]
        if self.relevance is not None:
            weights = np.where(values > 0, self._values(batch.rows, self.relevance), 1.0)
            tensors.append(send(weights.astype(np.float32), self.device))
        key = (shape, len(batch.rows), batch.total) if static else None
        return Loaded(batch, tuple(tensors), key, (shape,))

    def _values(self, rows: Rows, matrix: Csr) -> NDArray[np.float32]:
        """(rows, width) values of the rows' own labels, which stand first; 0 behind them."""
        starts = matrix.indptr[rows].astype(np.int64)
        counts = np.minimum(matrix.indptr[rows + 1] - starts, self.lists.shape[1])
        at = np.repeat(np.arange(len(rows)), counts)
        column = _within(at, len(rows))
        made = np.zeros((len(rows), self.lists.shape[1]), np.float32)
        made[at, column] = matrix.data[starts[at] + column]
        return made

    def loss(self, loaded: Loaded) -> Tensor:
        message, ids, values, *more = loaded.tensors
        view = self.inputs.views(message, loaded.facts[0])[self.plan.view]
        scores = self.table.score(self.branch(view), ids)
        weight, config = more[0] if more else None, self.config
        loss = row_loss(config.loss, scores, values, mask=ids >= 0, weight=weight, reduce=config.reduce)
        return loss.sum() / loaded.batch.total

    def tokens(self, rows: Rows) -> int:
        return self.inputs.tokens(rows)

    def validate(self) -> float | None:
        """Nothing to say: a shortlist holds a text's own labels."""
        return None

    def heads(self) -> list[Head]:
        """The trained label vectors; labels without training texts are barred from answers."""
        vectors, bias = (array(part).copy() for part in self.table.whole())
        bias[np.bincount(self.learned.indices, minlength=self.table.n) == 0] = -np.inf
        return [Head(vectors, bias)]


def train_shortlisted(
    dataset: Dataset, prepared: Prepared, own: Own, lists: Ids, plan: LevelPlan, config: TreeConfig, *,
    training: TrainConfig, job: Job, name: str = "train",
) -> Trained:  # fmt: skip
    """Train a head over fixed shortlists; one stage, with checkpoints inside."""
    world = World.join(prepared.device)

    def make() -> Part:
        learned = np.flatnonzero(dataset.learned)
        task = Shortlisted(prepared.learning(), own, learned, lists, plan, config, seed=job.seed, world=world)
        batches = plan_of(prepared, learned, training, job.seed, world)
        return learn(prepared, task, batches, training, world=world, job=job, name=name)

    part = once(job, f"{name}ed", world, make)
    heads = [Head.from_part(part.parts["level-00"])]
    return Trained(type(prepared.transformer).from_part(part.parts["encoder"]), heads)
