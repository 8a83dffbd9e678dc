"""The settings that the GPU suite trains with are known: it runs rarely, and elsewhere."""

import pytest

from network_forms import FORMS, settings_of
from treetop.training import plan


@pytest.mark.parametrize("form", FORMS)
def test_its_settings_are_known(form):
    recipe, settings = settings_of(form, "encoder", {"epochs": 3.0, "batch_size": 16, "cuda_graphs": False})
    assert plan(recipe, settings=settings).recipe == recipe
