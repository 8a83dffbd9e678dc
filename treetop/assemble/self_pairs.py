"""Training data whose documents are labels themselves: should a document be kept from its own label?"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from treetop.core.dataset import Dataset, Ints
from treetop.core.errors import choose
from treetop.core.log import logger
from treetop.predict.self_pairs import LEAST, self_pairs

Rule = Literal["auto", "keep", "bar"]


def check_rule(rule: str) -> None:
    """Refuse anything but a rule."""
    choose("self_pairs", rule, get_args(Rule))


def barred(dataset: Dataset, rule: Rule) -> bool:
    """Whether a document's own label is to be neither trained on nor predicted; says so.

    By "auto" where documents are labels and no document carries itself: then a text's own label, which every reader of
    label texts finds first, is always wrong.
    """
    if rule == "keep":
        return False
    pairs = self_pairs(dataset)
    true = int(np.count_nonzero(np.asarray(dataset.Y[pairs[:, 0], pairs[:, 1]]))) if len(pairs) else 0
    if rule == "auto" and (true or len(pairs) < LEAST):
        return False
    logger.info(
        "%s of %s documents are labels themselves: a document's own label is neither trained on nor predicted "
        "(--self-pairs keep)",
        f"{len(np.unique(pairs[:, 0])):,}", f"{int(dataset.documents.sum()):,}",
    )  # fmt: skip
    return True


def with_self_pairs(dataset: Dataset) -> Dataset:
    """The same data, where a document and its own label are a filter pair unless the label is one of its true ones."""
    pairs = self_pairs(dataset)
    if len(pairs):
        pairs = pairs[np.asarray(dataset.Y[pairs[:, 0], pairs[:, 1]]).ravel() == 0]
    given: Ints = np.zeros((0, 2), np.int64) if dataset.filter_pairs is None else dataset.filter_pairs
    return replace(dataset, filter_pairs=np.unique(np.concatenate([given, pairs]), axis=0))
