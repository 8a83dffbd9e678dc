"""A tiny task with every kind of weight: dense layers with dropout, a candidate table and a full classifier."""

import numpy as np
import torch

from treetop.kernels.full_bce import Positives
from treetop.rank.full import FullTable
from treetop.train.batches import Loaded
from treetop.network.targets import TargetRows
from treetop.tensors.devices import ALONE
from treetop.train.losses import row_loss
from treetop.train.optim import AdamConfig
from treetop.train.rows import RowTable

N, LABELS, WIDTH = 40, 11, 6


class ToyTask:
    low = ()

    def __init__(self, *, dropout=0.2, world=ALONE, limit=None, poison=None, scores=None):
        torch.manual_seed(5)
        rng = np.random.default_rng(0)
        self.device = torch.device("cpu")
        self.x = torch.tensor(rng.normal(size=(N, 5)), dtype=torch.float32)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(5, WIDTH), torch.nn.LayerNorm(WIDTH), torch.nn.Tanh(), torch.nn.Dropout(dropout)
        )
        config = AdamConfig(lr=0.02)
        self.modules = {"net": (self.net, config)}
        self.full = FullTable(LABELS, WIDTH, config, self.device, world=world)
        self.rows = RowTable(LABELS, WIDTH, config, self.device, bias=True, world=world)
        self.rows.fill(torch.randn(LABELS, WIDTH))
        self.tables = {"full": self.full, "rows": self.rows}
        self.ids = torch.tensor(rng.integers(-1, LABELS, (N, 4)))
        dense = torch.tensor(rng.random((N, LABELS)) < 0.2)
        rows, columns = dense.nonzero(as_tuple=True)
        indptr = np.concatenate([[0], np.cumsum(dense.sum(1).numpy())])
        self.targets = TargetRows(indptr, columns.numpy(), np.ones(len(rows), np.float32), self.device)
        self.dense = dense.float()
        self.limit, self.poison, self.scores = limit, poison, scores

    def load(self, batch, static):
        return Loaded(batch)

    def loss(self, loaded):
        return self.step(loaded.batch)

    def step(self, batch):
        if self.limit is not None and len(batch.rows) > self.limit:
            raise torch.OutOfMemoryError("simulated")
        h = self.net(self.x[batch.rows])
        if self.poison is not None and self.poison in batch.rows:
            h = h * float("nan")
        t = self.targets.gather(batch.everyone)
        loss = self.full.score_loss(h, Positives(t.row, t.column, t.value), 1 / batch.total)
        ids = self.ids[batch.rows]
        y = self.dense[batch.rows].gather(1, ids.clamp_min(0))
        return loss + row_loss("bce", self.rows.score(h, ids), y, mask=ids >= 0).sum() / batch.total

    def tokens(self, rows):
        return len(rows)

    def validate(self):
        return None if self.scores is None else self.scores.pop(0)

    def weights(self):
        made = {key: value.detach().clone() for key, value in self.net.state_dict().items()}
        return made | {"full": self.full.weight, "bias": self.full.bias, "rows": self.rows.weight}
