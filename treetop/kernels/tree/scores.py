"""From margins to scores along a path, and back: which margin a candidate needs to reach a score."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treetop.kernels.runtime.compile import tight

NOOP, SIGMOID, HINGE = 0, 1, 2
OWN, PARENT, PATH = 0, 1, 2


class Rule(NamedTuple):
    """How a margin becomes a score: transform (with a power), multiply or add, with which score of the parent."""

    transform: int
    power: int
    adds: bool
    combine: int
    by_own: bool  # the best are chosen by their own score instead of the combined one


@tight
def transformed(margin: Any, rule: Rule) -> Any:
    """The own score of a margin, worked out in float64."""
    if rule.transform == NOOP:
        return margin
    if rule.transform == SIGMOID:
        x = float(margin)
        log = -np.log1p(np.exp(-x)) if x > 0.0 else x - np.log1p(np.exp(x))
    else:
        gap = max(0.0, 1.0 - float(margin))
        log = gap
        for _ in range(rule.power - 1):
            log *= gap
        log = -log
    return np.float32(log if rule.adds else np.exp(log))


@tight
def combined(own: Any, parent_own: Any, parent_score: Any, rule: Rule) -> Any:
    """The own score joined with the parent's, as the rule says."""
    if rule.combine == OWN:
        return own
    parent = parent_own if rule.combine == PARENT else parent_score
    return own + parent if rule.adds else own * parent


@tight
def _log2_below(x: Any) -> Any:
    """At most log2(x), and at most 0.087 less, for a normal x > 0: the exponent and mantissa read as one number."""
    return np.float32(np.int64(np.float32(x).view(np.int32)) - np.int64(127 << 23)) * np.float32(2.0**-23)


@tight
def _exp2_above(y: Any) -> Any:
    """At least 2 ** y, and at most 7 % more, for y of normal size."""
    return np.int32((max(y, np.float32(-100)) + np.float32(127)) * np.float32(2.0**23)).view(np.float32)


@tight
def lowest_margin(worst: Any, parent: Any, rule: Rule) -> Any:
    """A margin below which no child of this parent can reach the score `worst`; on the low side, so none is lost."""
    if rule.transform == NOOP:
        return worst
    if rule.adds:
        log = worst - parent
        log -= np.float32(1e-4) * (abs(worst) + abs(parent)) + np.float32(1e-4)
    elif worst > np.float32(1e-30) and parent > np.float32(1e-30):
        log = np.float32(0.6931472) * (_log2_below(worst) - _log2_below(parent) - np.float32(0.09))
    else:
        return np.float32(-np.inf)  # near underflow: look at every candidate
    if rule.transform == SIGMOID:
        return log - np.float32(1e-4)  # sigmoid(m) < exp(m)
    # a gap g below the margin 1 gives the log score -g ** power
    log = min(log, np.float32(-1e-3))
    return np.float32(1) - _exp2_above((_log2_below(-log) + np.float32(0.09)) / np.float32(rule.power))
