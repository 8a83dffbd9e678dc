"""Settings that are `auto` take the language that the data state."""

import logging
from dataclasses import dataclass, field, replace

import pytest

from treetop.assemble.stated_language import with_stated_language
from treetop.core.errors import ConfigError
from treetop.data.frame import from_lists
from treetop.features.tfidf.tfidf import TfidfConfig

UNSTATED = from_lists(["kissa", "koira"], [["eläin"], ["eläin"]])
FINNISH = replace(UNSTATED, language="fi")


@dataclass(frozen=True)
class Config:
    language: str = "auto"
    tfidf: TfidfConfig = field(default_factory=lambda: TfidfConfig(stem="auto"))


def test_every_auto_takes_it(caplog):
    with caplog.at_level(logging.INFO, "treetop"):
        found = with_stated_language(Config(), FINNISH, say=True)
    assert found.language == found.tfidf.stem == "finnish"
    assert "words are compared by their finnish stems" in caplog.text


def test_languages_that_are_named_stay():
    named = Config(language="english", tfidf=TfidfConfig(stem="english"))
    assert with_stated_language(named, FINNISH) is named


def test_stems_of_no_stated_language_are_refused():
    assert with_stated_language(Config(tfidf=TfidfConfig()), UNSTATED).language == ""
    with pytest.raises(ConfigError, match=r"^tfidf.stem: 'auto' is the language of the data, and these state none"):
        with_stated_language(Config(), UNSTATED)
