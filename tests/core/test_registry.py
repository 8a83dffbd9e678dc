import pytest

from treetop.core import registry
from treetop.core.errors import ConfigError, MissingExtraError, extra


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"recipe: unknown name 'neighbors'.*Did you mean 'neighbours'\?"):
        registry.find("recipe", "neighbors")


def test_every_built_in_answer_can_be_imported():
    pytest.importorskip("torch")
    for question in registry.TABLE:
        for name in registry.names(question):
            assert registry.find(question, name) is not None


def test_plugins_stand_behind_built_in_answers(monkeypatch):
    monkeypatch.setattr(registry, "_plugins", lambda question: {"mine": "math:sqrt"} if question == "rank" else {})
    assert registry.names("rank")[-1] == "mine" and registry.find("rank", "mine")(4) == 2


def test_a_missing_package_names_the_extra():
    with pytest.raises(
        MissingExtraError, match=r"needs the package 'absent', which is not installed.*pip install .*\[ann\]'"
    ):
        extra("absent.inner", "ann")
