"""Answers of a model to texts, some thousands at a time: what `treetop predict` writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from treetop.cli.answers import Answer

if TYPE_CHECKING:
    from treetop.data.inputs import Input

# Networks batch texts by length inside a chunk, so shards that began at chunks would keep every bit. They would share
# unevenly, though (of 36,000 texts the longest of 8 had 8,192, not 4,500), and smaller chunks leave cores idle.
CHUNK = 4096
ALL, UNKNOWN = "all", "unknown"
LETTERS = 2**28  # of texts in a chunk, so that very long ones do not fill the memory


def answers_of(
    model: Any, texts: Iterator[Input], k: int, lowest: float | None, seen: Counter[str]
) -> Iterator[Answer]:
    """Each text with its answer, in order; `seen` counts them all, the unknown ones, and those with a remark."""
    for chunk in _chunks(texts):
        yield from _answers(model, chunk, k, lowest, seen)


def _chunks(texts: Iterator[Input]) -> Iterator[list[Input]]:
    """Full chunks from files; the last, incomplete chunk of a pipe is answered at its end."""
    chunk: list[Input] = []
    letters = 0
    for text in texts:
        chunk.append(text)
        letters += len(text.text)
        if len(chunk) == CHUNK or letters > LETTERS:
            yield chunk
            chunk, letters = [], 0
    if chunk:
        yield chunk


def _answers(model: Any, inputs: list[Input], k: int, lowest: float | None, seen: Counter[str]) -> Iterator[Answer]:
    from treetop.core.texts import Texts

    packed, ids = Texts.of([given.text for given in inputs]), Texts.of([given.id or "" for given in inputs])
    seen.update(model.remarks(packed, ids))
    rows, unknown, known = model.predict_known(packed, k, lowest, ids=ids)
    for given, row, nothing, share in zip(inputs, rows, unknown.tolist(), known.tolist(), strict=True):
        answer = {
            "ids": [label.id for label in row],
            "labels": [label.name for label in row],
            "scores": [label.score for label in row],
            "probabilities": [label.probability for label in row],
            "known_words": None if share != share else share,  # NaN: the model cannot tell
        }
        seen[ALL] += 1
        seen[UNKNOWN] += nothing
        yield given, {**answer, "unknown": True} if nothing else answer
