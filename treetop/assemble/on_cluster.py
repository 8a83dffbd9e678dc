"""What a cluster changes about a job: which recipes it can share out, what every node must hold, how long it takes."""

from __future__ import annotations

import dataclasses

from treetop.augment.compose import constant
from treetop.core import registry
from treetop.core.errors import ConfigError
from treetop.core.executor import executor
from treetop.core.executor.nodes import check_store
from treetop.core.executor.ray import Cluster
from treetop.core.executor.threads import count
from treetop.core.forecast import Forecast


def check_recipe(recipe: str) -> None:
    """Refuse a recipe that a cluster would not share out."""
    base = recipe.rpartition("+")[2]
    if not constant(base, "CLUSTER", False):
        able = ", ".join(name for name in registry.names("recipe") if constant(name, "CLUSTER", False))
        raise ConfigError(
            f"--cluster: {base} is not trained in shards on a cluster; these are: {able}. Leave --cluster out, or, for "
            "a recipe with an encoder, start the command with torchrun (docs/cluster.md)."
        )


def on_cluster(needs: Forecast) -> Forecast:
    """The forecast for the executor in use: by all cores, with what the object store of this machine holds too."""
    here = executor.current()
    if not isinstance(here, Cluster):
        return needs
    check_store(here.nodes, needs.shared, "the training data")
    return dataclasses.replace(
        needs,
        memory=needs.memory + needs.shared,
        floor=needs.floor + needs.shared,
        time=needs.time * count() / here.cores,
    )
