"""Synonym replacement: copies of the texts in which some words are replaced by synonyms.

Candidates are the single words that share a WordNet synset with a word (the bundled `wordnet` data); the one nearest to
it by the encoder is used or, without an encoder, the first in WordNet's order. Copies keep the labels of their text,
with weights and filter pairs, and are synthetic rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from treetop.assemble.label_rows import with_rows
from treetop.augment.offers import Offers
from treetop.core.config import setting
from treetop.core.dataset import SYNTHETIC, Dataset
from treetop.core.errors import InputError
from treetop.core.log import logger
from treetop.core.texts import Texts
from treetop.core.work import Job

NAME = "synonym"
WORD = re.compile(r"\w+")
ENCODER = "all-MiniLM-L6-v2"
Table = dict[str, list[str]]  # word -> words of the same meaning


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `synonym`."""

    word_fraction: float = setting(0.2, "fraction of a text's words that are replaced, at least one", low=0.0, high=1.0)
    copies: int = setting(1, "augmented copies per text", low=1, high=20)
    encoder: str = setting(ENCODER, "encoder that ranks candidate synonyms; empty: WordNet's order")


def needs(config: Config) -> list[str]:
    """Rows; their targets are those of documents."""
    return ["rows"]


def added(dataset: Dataset, config: Config) -> float:
    """Rows of copies, at most."""
    return config.copies * max(1, len(dataset))


def rows(dataset: Dataset, config: Config, job: Job) -> Dataset:
    """The data set with changed copies of its documents; a text without a known word has none."""
    if dataset.features:
        raise InputError(
            f"{NAME}: {dataset.name} has precomputed features, which changed texts do not have. "
            "Give texts, or leave the augmentation out."
        )
    table = candidates(dataset.texts)
    best = nearest(table, config.encoder, job.device) if config.encoder else {word: c[0] for word, c in table.items()}
    rng = np.random.default_rng([job.seed, 9])
    texts, owners = list[str](), list[int]()
    for row in np.repeat(np.flatnonzero(dataset.documents & dataset.learned), config.copies).tolist():
        changed = replaced(dataset.texts[row], best, config.word_fraction, rng)
        if changed is not None:
            texts.append(changed)
            owners.append(row)
    logger.info("%s: %s changed copies of texts are added as training rows", NAME, f"{len(texts):,}")
    if not texts:
        return dataset
    return with_rows(dataset, replace(dataset.take(np.array(owners)), texts=Texts.of(texts)), SYNTHETIC)


def replaced(text: str, best: dict[str, str], share: float, rng: np.random.Generator) -> str | None:
    """The text with some of its words replaced, or None if no word is known."""
    words = list(WORD.finditer(text))
    known = [i for i, word in enumerate(words) if word[0].lower() in best]
    if not known:
        return None
    count = min(len(known), max(1, round(share * len(words))))
    chosen = set(np.array(known)[rng.permutation(len(known))[:count]].tolist())
    words_out, at = [], 0
    for i, word in enumerate(words):
        if i in chosen:
            words_out += [text[at : word.start()], best[word[0].lower()]]
            at = word.end()
    return "".join([*words_out, text[at:]])


def candidates(texts: Iterable[str]) -> Table:
    """The words of these texts that have synonyms in WordNet."""
    wordnet = Dataset.read("wordnet")
    table: Table = {}
    for entry in (*wordnet.labels.texts, *wordnet.texts):
        names = [name.strip().lower() for name in entry.partition(":")[0].split(",")]
        single = [name for name in dict.fromkeys(names) if WORD.fullmatch(name)]
        for word in single if len(single) > 1 else ():
            known = table.setdefault(word, [])
            known += [other for other in single if other != word and other not in known]
    used = {word.lower() for text in texts for word in WORD.findall(text)}
    return {word: table[word] for word in sorted(used & table.keys())}


def nearest(table: Table, encoder: str, device: str) -> dict[str, str]:
    """Per word the candidate with the nearest vector; the first of equals."""
    from treetop.features.encoder.transformer import Transformer, TransformerConfig
    from treetop.tensors import devices

    words = sorted({*table, *(other for others in table.values() for other in others)})
    if not words:
        return {}
    model = Transformer.load(TransformerConfig(model=encoder, max_length=16, l2=True)).move(devices.pick(device))
    V = next(iter(model.vectors(model.tokenizer.encode(Texts.of(words))).values()))
    place = {word: i for i, word in enumerate(words)}
    choice = {}
    for word, others in table.items():
        cosines = V[[place[other] for other in others]] @ V[place[word]]
        choice[word] = others[int(np.argmax(cosines))]
    return choice


OFFERS = Offers(rows=rows, added=added)
