"""Time, memory, network, disk and the cost of predictions for data of some size on some machines.

Memory and the size of the model come from the recipe's own forecast. The time of linear trees is added up from their
stages, each with as many cores as it can use: reading, merging vocabularies and writing take one, the first level of a
tree one for all its nodes, a halving one for each cluster. Other recipes forecast their time for two cores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from treetop.assemble.held_out.hold_out import HoldOut
from treetop.assemble.linear.budget import PLACE, WIDTHS
from treetop.assemble.linear.ensemble import TreesConfig
from treetop.assemble.plan.imagined import Size, imagined
from treetop.assemble.plan.rates import LANES, Rates
from treetop.core.errors import ConfigError
from treetop.core.forecast import COMPILED, Forecast
from treetop.partition.balanced import BalancedConfig, sizes_of

MERGING = 0.25  # share of tf-idf that one core does: vocabularies of blocks are merged in order
MOST_SPREAD = 0.6  # share of a document's other labels that are in a cluster of their own, on the lowest levels
KEPT = 3000.0  # weights of a label, at most
FLOPS = 1e11  # of the two cores that forecasts of networks count with
MADE_OF_OTHERS = ("auto", "blend")
BASIS = 20.0  # seconds besides, in those forecasts


@dataclass(frozen=True)
class Machines:
    """What there will be to compute with."""

    count: int = 1
    cores: int = 2
    gpus: int = 0
    network: float = 1.25e9  # bytes by second between two machines
    price: float | None = None  # of one machine for an hour


class Stage(NamedTuple):
    """A stage: its work in CPU seconds, and the seconds it takes."""

    name: str
    cpu: float
    seconds: float


@dataclass(frozen=True)
class Outlook:
    """What a job will need."""

    stages: tuple[Stage, ...]
    memory: float  # of the machine that starts the job
    memory_worker: float  # of each of the others
    network: float | None  # bytes that are sent in all; None: not forecast
    disk: float
    model: float
    predict: float | None  # CPU seconds of a million predictions; None: not measured for this recipe

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    @property
    def cpu(self) -> float:
        return sum(stage.cpu for stage in self.stages)


def outlook(planned: Any, size: Size, machines: Machines, rates: Rates, *, calibrate: bool = True) -> Outlook:
    """What `planned`, a recipe with its settings, will need for data of this size on these machines."""
    if "+" in planned.recipe or planned.recipe in MADE_OF_OTHERS:
        raise ConfigError(
            f"recipe '{planned.recipe}': looks into the data to know what it needs, and there are none yet. Plan one "
            "recipe without augmentations, such as xr_linear or renee."
        )
    data = imagined(size, bytes_per_token=rates.bytes_per_token, described=rates.described)
    needs: Forecast = planned.forecast(data, held=HoldOut(calibrate), device="cpu")
    twice = 2 if calibrate and planned.refits else 1
    if isinstance(planned.config, TreesConfig):
        needs = needs.sized(_model(planned.config, size, rates, needs))
        stages = _tree_stages(planned.config, size, machines, rates, needs, twice)
        levels = len(_sizes(planned.config, size))
        predict = 1e6 * rates.terms_per_token * size.tokens * levels * planned.config.trees / rates.predict
    else:
        stages, predict = _training(needs, machines, rates), None
    found = Outlook(stages, needs.memory, 0.0, 0.0, _disk(size, rates, needs), needs.model, predict)
    return found if machines.count == 1 else _on_several(found, needs, machines, twice)


def _on_several(found: Outlook, needs: Forecast, machines: Machines, twice: int) -> Outlook:
    """What several machines add: shared data on each of them, or, for a network, all but the other label vectors."""
    if not needs.shared:
        return replace(found, memory_worker=needs.memory, network=None)
    others = machines.count - 1
    sent = others * twice * needs.shared + needs.model * others / machines.count
    stages = (*found.stages, Stage("network", 0.0, sent / machines.network))
    worker = needs.shared + machines.cores * COMPILED
    return replace(found, stages=stages, memory=needs.memory + needs.shared, memory_worker=worker, network=sent)


def _terms(size: Size, rates: Rates) -> float:
    return rates.terms_per_token * size.tokens


def _model(config: TreesConfig, size: Size, rates: Rates, needs: Forecast) -> float:
    """Bytes of the model, by the weights that were left after pruning where they were counted."""
    weights = min(rates.weights * _terms(size, rates) * size.assignments, KEPT * size.labels)
    names = size.labels * (2.0 * size.label_tokens * rates.bytes_per_token + 41.0)
    vocabulary = 6.0 * size.documents * _terms(size, rates) / 10.0
    return min(needs.model, config.trees * weights * (WIDTHS[config.linear.storage] + PLACE) + names + vocabulary)


def _sizes(config: Any, size: Size) -> list[int]:
    """Nodes of each level."""
    tree = config.tree
    if isinstance(tree, BalancedConfig):
        return sizes_of(int(size.labels), tree)
    depth = min(tree.max_depth, math.ceil(math.log(max(size.labels / tree.max_leaf, 1.0), tree.branching)))
    return [*(tree.branching**t for t in range(1, depth + 1)), int(size.labels)]


def _tree_stages(
    config: TreesConfig, size: Size, machines: Machines, rates: Rates, needs: Forecast, twice: int
) -> tuple[Stage, ...]:
    terms, cores = _terms(size, rates), machines.cores * machines.count
    text = size.documents * size.tokens * rates.bytes_per_token / rates.tfidf
    described = terms * size.assignments
    stages = [
        _shared("tf-idf", text, [(MERGING, 1), (1 - MERGING, cores)]),
        _shared("label descriptions", described / rates.describe, [(1.0, machines.cores)]),
    ]
    sizes = _sizes(config, size)
    halvings = max(1, (sizes[-2] - 1).bit_length()) if len(sizes) > 1 else 0
    each = rates.described * described / rates.cluster
    trees = [_shared("label clusters", halvings * each, [(1 / halvings, min(2**r, cores)) for r in range(halvings)])]
    rows, names = size.documents, ["first", *["middle"] * (len(sizes) - 2), "last"]
    for t, (above, below) in enumerate(zip([1, *sizes], sizes, strict=False)):
        if t:
            spread = min(MOST_SPREAD, rates.spread * math.log2(above))
            rows = size.documents * (1.0 + max(size.labels_per_document - 1.0, 0.0) * spread)
        lanes = rows * math.ceil(below / above / LANES)
        rate = getattr(rates, names[-1] if t == len(sizes) - 1 else names[t])
        trees.append(_shared(f"level {t + 1}", terms * lanes / rate, [(1.0, min(above, cores))]))
    stages += [_times(stage, config.trees) for stage in trees]
    read = size.documents + size.assignments + 10.0 * size.labels
    return (
        _shared("reading", read / rates.read, [(1.0, 1)]),
        *(_times(stage, twice) for stage in stages),
        _shared("writing", (1 + twice) * needs.model / rates.save, [(1.0, 1)]),
    )


def _shared(name: str, cpu: float, parts: list[tuple[float, int]]) -> Stage:
    """A stage whose parts (a share of the work, cores that it can use) follow each other."""
    return Stage(name, cpu, sum(cpu * share / width for share, width in parts))


def _times(stage: Stage, times: int) -> Stage:
    """The same stage run several times."""
    return Stage(stage.name, times * stage.cpu, times * stage.seconds)


def _training(needs: Forecast, machines: Machines, rates: Rates) -> tuple[Stage, ...]:
    """Another recipe: by its own forecast, on the cores of one machine, or on GPUs if it has an encoder."""
    if machines.gpus and rates.gpu:
        seconds = BASIS + max(needs.time - BASIS, 0.0) * FLOPS / (rates.gpu * machines.gpus * machines.count)
        return (Stage("training", seconds, seconds),)
    return (Stage("training", 2.0 * needs.time, 2.0 * needs.time / machines.cores),)


def _disk(size: Size, rates: Rates, needs: Forecast) -> float:
    """The data, stages and the model while it is put in place."""
    text = size.documents * size.tokens * rates.bytes_per_token
    return 1.3 * text + 12.0 * size.assignments + 8.0 * size.documents * _terms(size, rates) + 2.2 * needs.model
