"""Stemming by language: Snowball's stemmers, from the optional package `snowballstemmer`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treetop.core.errors import choose, extra


def stemmer(language: str) -> Callable[[str], str]:
    """A function from a lower-case word to its stem in a language, such as "english" or "finnish"."""
    snowball: Any = extra("snowballstemmer", "languages")
    choose("language", language, sorted(snowball.algorithms()))
    stem: Callable[[str], str] = snowball.stemmer(language).stemWord
    return stem
