"""A model whose device is the CPU, by the code that answers on a GPU: views and label vectors are torch tensors."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from treetop.features.concatenate import Concatenated
from treetop.features.encoder.towers import Towers
from treetop.features.learned import Learned
from treetop.rank.fusion import Fusion
from treetop.rank.head import Head

CPU = torch.device("cpu")


def rank_on_tensors(rank: Any) -> Any:
    if not isinstance(rank, Head):
        return rank
    moved = rank.to(CPU)
    if isinstance(moved, Fusion):
        moved._heads = {name: rank_on_tensors(head) for name, head in rank._heads.items()}
    else:
        moved.table = rank.table_on(CPU)
    return moved


def features_on_tensors(item: Any) -> Any:
    if isinstance(item, Learned):
        return item.copied(CPU, keeps_views=True)
    if isinstance(item, Towers):
        return Towers(features_on_tensors(item.transformer), item.towers)
    if isinstance(item, Concatenated):
        return Concatenated(item.tfidf, [features_on_tensors(part) for part in item.transformers], item.dense)
    return item


def on_tensors(model: Any) -> Any:
    features = {name: features_on_tensors(item) for name, item in model.features.items()}
    members = [
        [dataclasses.replace(level, rank=rank_on_tensors(level.rank)) for level in member] for member in model.members
    ]
    return dataclasses.replace(model, features=features, members=members)
