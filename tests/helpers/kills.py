"""Trainings that are killed and go on."""

from __future__ import annotations

import numpy as np
import pytest

import toy
import treetop
from treetop.train import loop
from treetop.train.checkpoint import Checkpoints


def checkpoint_every_step(monkeypatch):
    """Write a checkpoint behind every step; steps of toy models are too short for the loop to find that worth it."""
    monkeypatch.setattr(Checkpoints, "due", lambda self, step: True)


def assert_kills_change_nothing(recipe, data, settings, *, stops, folder, monkeypatch):
    """A training killed at these steps, counted over all its tries, ends in the model of one that was left alone."""
    whole = treetop.fit(recipe, data, settings=settings)
    seen, begun, real = [], [], loop._Run._step

    def step(self, batch):
        seen.append(batch.step)
        if len(seen) in stops:
            raise KeyboardInterrupt
        real(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(loop._Run, "_step", step)
        checkpoint_every_step(patch)
        for place in range(len(stops)):
            with pytest.raises(KeyboardInterrupt):
                treetop.fit(recipe, data, settings=settings, out=folder, resume=place > 0)
            begun.append(len(seen))
        resumed = treetop.fit(recipe, data, settings=settings, out=folder, resume=True)
    assert any(seen[place] > 0 for place in begun)  # some try went on behind a first step
    assert all(seen[place] == seen[place - 1] for place in begun)  # and each where the one before was killed
    a, b = (model.rank(toy.dataset(seed=3).texts, 10) for model in (whole, resumed))
    assert np.array_equal(a.ids, b.ids) and np.array_equal(a.score, b.score)
