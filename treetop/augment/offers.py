"""What an augmentation provides to training; its module declares it as `OFFERS = Offers(...)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treetop.core.dataset import Dataset
from treetop.core.work import Job

if TYPE_CHECKING:
    from treetop.labels.graph import Needs  # which loads the compiler of kernels


@dataclass(frozen=True)
class Offers:
    """The functions of an augmentation; None: not provided. Each takes the settings as second argument."""

    rows: Callable[[Dataset, Any, Job], Dataset] | None = None  # the data set with further rows
    mix: Callable[[Dataset, Any, Job], Any] | None = None  # mixtures of rows in a batch; may return None
    penalty: Callable[[Dataset, Any, Job], Any] | None = None  # on label vectors; may return None
    added: Callable[[Dataset, Any], float] | None = None  # rows added to the documents, for forecasts
    forecast: Callable[[Dataset, Any], Needs] | None = None  # what its graph takes
