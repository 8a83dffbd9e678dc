"""A tiny task with every kind of weight: dense layers with dropout, a candidate table and a full classifier."""

import numpy as np
import torch
from scipy import sparse

from treetop.kernels.gpu.full_bce import Positives
from treetop.network.losses.pairs import Pairs
from treetop.network.losses.settings import LossConfig, loss_of
from treetop.network.targets import TargetRows
from treetop.network.vectors.full import FullTable
from treetop.network.vectors.rows import RowTable
from treetop.tensors.devices import ALONE
from treetop.train.batches import Loaded
from treetop.train.optim import AdamConfig
from treetop.train.task import Validation

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
        self.rows.init(torch.randn(LABELS, WIDTH))
        self.tables = {"full": self.full, "rows": self.rows}
        self.ids = torch.tensor(rng.integers(-1, LABELS, (N, 4)))
        dense = torch.tensor(rng.random((N, LABELS)) < 0.2)
        self.dense = dense.float()
        self.targets = TargetRows(sparse.csr_matrix(self.dense.numpy()), self.device)
        self.limit, self.poison, self.scores = limit, poison, scores

    def state(self):
        return {}

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
        pairs = Pairs(self.rows.logits(h, ids), y, ids < 0)
        return loss + loss_of("bce")(pairs, LossConfig(kind="bce")).sum() / batch.total

    def tokens(self, rows):
        return len(rows)

    def validate(self):
        if self.scores is None:
            return None
        score = self.scores.pop(0)
        return Validation({"score": score}, score)

    def weights(self):
        made = {key: value.detach().clone() for key, value in self.net.state_dict().items()}
        return made | {"full": self.full.weight, "bias": self.full.bias, "rows": self.rows.weight}
