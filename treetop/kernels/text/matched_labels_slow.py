"""What `matched_labels.py` computes for one text, plainly: its twin in tests."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from treetop.kernels.text.matched_labels import Facts, Table
from treetop.kernels.text.matching import CHANNELS, FOUND, TIGHT


def label_rows_slow(
    forms: list[int], values: NDArray[np.float32], table: Table, facts: Facts
) -> dict[int, list[float]]:
    """Label -> what is known of it, labels ascending."""
    matches: dict[int, list[tuple[int, int]]] = {label: [] for label in table.frequent.tolist()}
    for i, form in enumerate(forms):
        for place in range(int(table.ends[form]), int(table.ends[form + 1])):
            matches.setdefault(int(table.labels[place]), []).append((i, place))
    best = {
        label: max(found, key=lambda pair: (values[pair[0], FOUND], values[pair[0], TIGHT], -pair[0]))
        for label, found in matches.items()
        if found
    }
    most = max((float(table.information[forms[i]]) for i, _ in best.values()), default=0.0)
    made: dict[int, list[float]] = {}
    for label in sorted(matches):
        of_form, information = [0.0] * (CHANNELS + 5), 0.0
        if label in best:
            i, place = best[label]
            form = forms[i]
            information = float(table.information[form])
            shared = math.log(int(table.ends[form + 1] - table.ends[form]))
            count = math.log1p(len(matches[label]))
            more = [count, float(table.words[form]), information, shared, float(table.source[place])]
            of_form = [*values[i].tolist(), *more]
        near = table.relatives[table.relative_ends[label] : table.relative_ends[label + 1]].tolist()
        relatives = math.log1p(sum(other in best for other in near))
        fact = [float(facts.frequency[label]), float(facts.precision[label])]
        made[label] = [*of_form, *fact, relatives, math.log1p(len(best)), information / most if most > 0 else 0.0]
    return made
