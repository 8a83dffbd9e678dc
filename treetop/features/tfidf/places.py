"""Where the n-grams of a text stand in it; slow and plain, for a few texts that are explained."""

from __future__ import annotations

import re

from treetop.core.language import stemmer
from treetop.features.tfidf.grams import Cutter
from treetop.kernels import reference

Place = tuple[str, int, int]  # n-gram, start and end in characters of the text as given


def places(cutter: Cutter, text: str) -> list[Place]:
    """Every n-gram of a text in order, known or not."""
    return _word_grams(cutter, text) if cutter.unit == "words" else _character_grams(cutter, text)


def _word_grams(cutter: Cutter, text: str) -> list[Place]:
    split_runs = cutter.unspaced is not None
    groups = reference.word_spans(
        text, lower=cutter.lower, marks=cutter.marks, shortest=cutter.shortest, split_runs=split_runs
    )
    if cutter.stem:
        groups = [(is_run, units if is_run else _stems(units, cutter.stem)) for is_run, units in groups]
    return reference.word_grams(groups, cutter.low, cutter.high, cutter.unspaced)


def _stems(words: list[Place], language: str) -> list[Place]:
    stems = stemmer(language)([word for word, _, _ in words])
    return [(stem, start, end) for stem, (_, start, end) in zip(stems, words, strict=True)]


def _character_grams(cutter: Cutter, text: str) -> list[Place]:
    origin = [i for i, character in enumerate(text) for _ in (character.lower() if cutter.lower else character)]
    grams = []
    for run, at in _runs(cutter, text.lower() if cutter.lower else text):
        lengths = [n for n in range(cutter.low, cutter.high + 1) if n <= len(run)]
        if cutter.within == "words" and len(run) < cutter.low:
            lengths = [len(run)]
        for n in lengths:
            for i in range(len(run) - n + 1):
                grams.append((run[i : i + n], origin[at[i]], origin[at[i + n - 1]] + 1))
    return grams


def _runs(cutter: Cutter, tidy: str) -> list[tuple[str, list[int]]]:
    """(characters, position of each) within which n-grams lie; a blank around a word has the place of its end."""
    if cutter.within == "words":
        words = [(match[0], match.start(), match.end()) for match in re.finditer(r"\S+", tidy)]
        return [(f" {word} ", [start, *range(start, end), end - 1]) for word, start, end in words]
    at = [i for i in range(len(tidy)) if not (tidy[i].isspace() and i and tidy[i - 1].isspace())]
    lone = [i + 1 >= len(tidy) or not tidy[i + 1].isspace() for i in range(len(tidy))]
    return [("".join(tidy[i] if not tidy[i].isspace() or lone[i] else " " for i in at), at)]
