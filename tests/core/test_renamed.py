"""Old names of settings: people are told the new one, saved models open."""

import dataclasses
import re
import typing
from pathlib import Path

import pytest

import treetop.training
from treetop.augment.compose import current_names
from treetop.core import registry, renamed
from treetop.core.errors import ConfigError
from treetop.features.tfidf.tfidf import Tfidf, TfidfConfig
from treetop.partition.balanced import BalancedConfig
from treetop.training import plan


def groups(kind: type) -> list[type]:
    """A settings class and those nested in it."""
    inner = [hint for hint in typing.get_type_hints(kind).values() if dataclasses.is_dataclass(hint)]
    return [kind, *(deeper for hint in inner for deeper in groups(hint))]


@pytest.mark.parametrize(
    ("recipe", "given", "said"),
    [
        ("bonsai", ["tree.k=8"], "^setting 'tree.k' is now called 'tree.branching'. Write tree.branching=8.$"),
        ("unidec", ["search.raw=false"], "Write search.classifier_score=cosine"),
        ("unidec", {"classifier": {"place": "host"}}, "Write classifier.offload=true"),
        ("unidec", ["learn_encoder.lr=1"], "is now called 'encoder_optimizer'. Write encoder_optimizer.lr="),
        ("gandalf+lightxml", ["gandalf.share=0.5"], "'gandalf.share' is now called 'gandalf.label_fraction'"),
        ("astec", {"near": "lists"}, "'near' is now called 'index'. Write index=ivf"),
        ("astec", {"size": 9}, "'size' is now called 'list_size'"),
        ("renee", {"size": 9.0}, "'size' is now called 'init_scale'"),
        ("xr_transformer", {"keep": 3}, "'keep' is now called 'train_beam'"),
    ],
)  # fmt: skip
def test_an_old_name_is_answered_with_the_new_one(recipe, given, said):
    with pytest.raises(ConfigError, match=said):
        plan(recipe, settings=given)


@pytest.mark.parametrize("data", ["amazon-670k", "amazoncat-13k", "eurlex-4k", "wiki-500k"])
def test_an_old_name_of_a_preset_is_answered_with_the_new_one(data):
    old, new = "paper-" + data.replace("-", ""), f"paper-{data}"
    with pytest.raises(ConfigError, match=f"^preset '{old}': unknown for lightxml. .* Did you mean '{new}'\\?$"):
        plan("lightxml", preset=old)
    assert plan("lightxml", preset=new).config.encoder.model


def test_presets_have_a_hyphen_before_the_number_of_labels():
    names = {file.stem for file in (Path(treetop.__file__).parent / "presets").rglob("paper-*.yaml")}
    sizes = {name: re.search(r"(.)(?<![\d.])[\d.]+[km]\b", name) for name in names}
    assert len(names) > 20 and {found[1] for found in sizes.values() if found} == {"-"}


def test_every_new_name_is_a_setting_and_no_group_has_two_for_one_old_name():
    modules = [registry.find(question, name) for question in ("recipe", "augment") for name in registry.names(question)]
    fields = [
        {field.name for field in dataclasses.fields(kind)} for module in modules for kind in groups(module.Config)
    ]
    known = set().union(*fields)
    for old, new in renamed.NAMES.items():
        assert known.issuperset(new), old
    assert renamed.VALUES.keys() <= renamed.NAMES.keys()


def test_saved_settings_are_read_under_their_new_names():
    saved = {"tree": {"width": 8, "rule": "same"}, "labels": "pifa", "gandalf": {"share": 0.5}}
    assert current_names("gandalf+xr_linear", saved) == {
        "tree": {"branching": 8, "stop_when": "stable"}, "label_features": "pifa", "gandalf": {"label_fraction": 0.5},
    }  # fmt: skip
    assert current_names("nobody", {"a": 1}) == {"a": 1}
    assert renamed.translated(BalancedConfig, {"top": None, "max_leaf": 3}) == {"top_branching": None, "max_leaf": 3}


def test_features_saved_under_old_names_open():
    tfidf = Tfidf.fit(["a cat", "a dog"], TfidfConfig(char_ngrams=(2, 3)))
    part = tfidf.to_part()
    old = {"char_ngrams": "chars", "char_ngrams_within": "chars_within", "min_word_length": "min_chars"}
    config = {old.get(name, name): value for name, value in part.config.items()}
    assert Tfidf.from_part(dataclasses.replace(part, config=config)).config == tfidf.config


def test_a_finished_job_of_an_older_version_is_known(tmp_path, monkeypatch):
    texts, labels = ["a cat", "a dog", "the cat"], [["c"], ["d"], ["c"]]
    older = {"trees": 1, "tree": {"width": 4}}
    monkeypatch.setattr(treetop.training.Plan, "settings", property(lambda self: older))
    treetop.fit("xr_linear", texts, labels, out=tmp_path / "m")
    monkeypatch.setattr(
        treetop.training.Plan, "settings", property(lambda self: {"trees": 1, "tree": {"branching": 4}})
    )
    assert treetop.fit("xr_linear", texts, labels, out=tmp_path / "m", resume=True).card.config == older
