"""Propensity: how likely a true label is annotated (Jain et al. 2016); its inverse weights hits in PSP and PSnDCG."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def inverse_propensity(counts: NDArray[np.integer], n_train: int, a: float, b: float) -> NDArray[np.float64]:
    """Weights w = 1 + C (n + B)^-A with C = (ln N - 1)(B + 1)^A; largest for labels never seen in training.

    `counts` and `n_train` are those of the original training documents, before any split or augmentation. Below three
    documents C would be negative and reward common labels; it is then 0 and all weights are 1.
    """
    c = max(float(np.log(max(n_train, 1))) - 1.0, 0.0) * (b + 1.0) ** a
    return 1.0 + c * (np.asarray(counts, np.float64) + b) ** -a
