"""Settings that name a language: `auto` becomes the one that the data set states (dataset.json, --language)."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from treetop.core.dataset import Dataset
from treetop.core.errors import ConfigError
from treetop.core.language import AUTO, stemmed_language
from treetop.core.log import logger
from treetop.features.tfidf.tfidf import TfidfConfig

T = TypeVar("T")


def with_stated_language(config: T, dataset: Dataset, *, say: bool = False) -> T:
    """The same settings, with the language of the data wherever that of a stemmer is `auto`."""
    if not is_dataclass(config):
        return config
    changed: dict[str, Any] = {}
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    if isinstance(config, TfidfConfig):
        if config.stem == AUTO:
            changed["stem"] = _stemmer("tfidf.stem", dataset) or None
    elif values.get("language") == AUTO:
        changed["language"] = stemmed_language(dataset.language)
    for name, part in values.items():
        if isinstance(part, TfidfConfig) and (settled := with_stated_language(part, dataset)) is not part:
            changed[name] = settled
    if say and changed.get("language"):
        logger.info("%s: words are compared by their %s stems", dataset.name, changed["language"])
    return replace(config, **changed) if changed else config  # type: ignore[type-var]


def _stemmer(where: str, dataset: Dataset) -> str:
    if not dataset.language:
        raise ConfigError(
            f"{where}: 'auto' is the language of the data, and these state none. Give --language, put "
            '"language": "fi" into dataset.json, or name the language of the stemmer.'
        )
    return stemmed_language(dataset.language)
