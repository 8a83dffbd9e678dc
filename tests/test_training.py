"""What `treetop.fit` refuses before it trains."""

import dataclasses

import numpy as np
import pytest

import toy
import treetop
from treetop.core.dataset import LABEL_TEXT, RETIRED
from treetop.core.errors import InputError


def with_roles(data):
    return dataclasses.replace(data, roles=np.full(len(data), LABEL_TEXT, np.uint8))


def with_targets_of_nothing(data):
    return dataclasses.replace(data, Y=data.Y * 0.0)


def with_retired_labels(data):
    return dataclasses.replace(data, labels=dataclasses.replace(data.labels, status=np.full(data.n_labels, RETIRED)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_roles, r"^toy: 0 texts with 0 labels and 60 rows of other roles\. Training needs at least one text"),
        (with_targets_of_nothing, r"^toy: 60 texts with 0 labels\. Training needs at least one text with one label"),
        (with_retired_labels, r"^toy: all 40 labels are retired, so that none could be answered with\. Make at least"),
    ],
)
@pytest.mark.parametrize("recipe", ["popular", "xr_linear"])
def test_data_that_teach_nothing_are_refused(recipe, change, message):
    with pytest.raises(InputError, match=message):
        treetop.fit(recipe, change(toy.dataset()))
