import pytest

from treetop.core.early_stop import check_patience
from treetop.core.errors import ConfigError


def test_patience_needs_documents_to_go_by():
    check_patience({"validation": 0.1, "train": {"patience": 2}})
    check_patience({"validation": 0.0, "train": {"patience": 0}, "members": 2})
    with pytest.raises(ConfigError) as told:
        check_patience({"validation": 0.0, "train": {"patience": 2}})
    assert str(told.value) == (
        "train.patience: early stopping goes by documents held out of training, and validation is 0. "
        "Set validation=0.1, or train.patience=0."
    )
    with pytest.raises(ConfigError, match=r"^second_train\.patience: .* this recipe holds out none\. Leave second_"):
        check_patience({"train": {"patience": 0}, "second_train": {"patience": 1}})


@pytest.mark.parametrize("recipe", ["lightxml", "renee", "ngame", "astec", "xr_transformer"])
def test_every_recipe_refuses_it_before_any_work(recipe):
    pytest.importorskip("torch")
    from treetop.training import plan

    with pytest.raises(ConfigError, match=r"^train\.patience: early stopping goes by documents held out"):
        plan(recipe, settings=["train.patience=3"])
