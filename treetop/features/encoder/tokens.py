"""Texts as token ids, computed once and kept in a memory-mapped file: ids end to end, and row offsets.

A text longer than `max_length` is cut, or becomes several windows whose vectors are averaged later.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints
from treetop.core.errors import ConfigError, extra
from treetop.core.log import progress
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.work import Job
from treetop.features.encoder.tokenizer_file import library_errors, read_tokenizer
from treetop.kernels.runtime import threads

Long = Literal["truncate", "windows"]
STAGE = 200_000  # texts in one resumable piece
BLOCK = 2_000  # texts a thread takes at a time
# Characters of a text that are tokenised where it is cut: first so many, and the most where these give too few tokens.
FIRST, PER_TOKEN, MOST = 4096, 32, 1 << 17
BLANKS = ("[MASK]", "<mask>", "[PAD]", "<pad>")
BACK = 256  # characters within which a cut moves back to white space


@dataclass(frozen=True, eq=False)
class Tokens:
    """Sequences of token ids; row i owns sequences `rows[i]` to `rows[i + 1]` (None: one sequence each)."""

    ids: NDArray[np.unsignedinteger]  # uint16 where the vocabulary allows it
    offsets: Ints  # (n_sequences + 1,)
    rows: Ints | None = None  # (n_rows + 1,)

    def __len__(self) -> int:
        return (len(self.offsets) if self.rows is None else len(self.rows)) - 1

    @property
    def lengths(self) -> Ints:
        """Tokens of each row."""
        ends = self.offsets if self.rows is None else self.offsets[self.rows]
        return np.diff(ends)

    @classmethod
    def concat(cls, parts: list[Tokens]) -> Tokens:
        """All rows of `parts` one after the other."""
        rows = None
        if any(part.rows is not None for part in parts):
            rows = _ends([np.diff(part.rows if part.rows is not None else np.arange(len(part) + 1)) for part in parts])
        ids = np.concatenate([part.ids for part in parts])
        return cls(ids, _ends([np.diff(part.offsets) for part in parts]), rows)

    def take(self, rows: Ints) -> Tokens:
        """These rows; each must be one sequence."""
        counts = np.diff(self.offsets)[rows]
        starts = np.repeat(self.offsets[rows] - np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)[:-1]]), counts)
        return Tokens(self.ids[starts + np.arange(len(starts))], _ends([counts]))

    def to_part(self) -> Part:
        arrays: dict[str, NDArray[Any]] = {"ids": self.ids, "offsets": self.offsets}
        if self.rows is not None:
            arrays["rows"] = self.rows
        return Part("stage.tokens.1", {}, arrays)

    @classmethod
    def from_part(cls, part: Part) -> Tokens:
        offsets, rows = part.arrays["offsets"], part.arrays.get("rows")
        return cls(part.arrays["ids"], np.asarray(offsets), None if rows is None else np.asarray(rows))


def _ends(counts: list[Ints]) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(counts))])


class Tokenizer:
    """A `tokenizer.json` with one way of cutting long texts."""

    def __init__(self, raw: bytes, max_length: int, long: Long = "truncate") -> None:
        # Threads come from our own pool, which obeys --threads; the library's pool does not.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        library = extra("tokenizers", "torch")
        read_tokenizer(raw)
        with library_errors():
            tokenizer = library.Tokenizer.from_buffer(raw)
            tokenizer.no_padding()
            special = tokenizer.encode(
                "a"
            ).ids  # what does not work at all fails here, and special tokens show their ids
            least = tokenizer.num_special_tokens_to_add(False) + 1
        if max_length < least:
            raise ConfigError(f"max_length: {max_length} leaves no room for words; this tokenizer needs {least}.")
        tokenizer.enable_truncation(max_length)
        self.raw, self.max_length, self.long = raw, max_length, long
        self.size: int = max([-1, *special, *tokenizer.get_vocab(True).values()]) + 1
        self._library = tokenizer
        self._type = np.uint16 if self.size <= 1 << 16 else np.uint32

    @property
    def blank(self) -> int | None:
        """The token that stands for a hidden word, else the one that fills up; None: it has neither."""
        found = [self._library.token_to_id(name) for name in BLANKS]
        return next((token for token in found if token is not None), None)

    def encode(self, texts: Texts) -> Tokens:
        """Token ids of a batch, on as many threads as allowed."""
        if len(texts) <= BLOCK:
            return self._block(texts)
        return Tokens.concat(threads.run(lambda a, b: self._block(texts.span(a, b)), threads.blocks(len(texts), BLOCK)))

    def _block(self, texts: Texts) -> Tokens:
        ids: list[int] = []
        lengths, counts = [], []
        for encoded in self._encoded(list(texts)):
            windows = [encoded, *encoded.overflowing] if self.long == "windows" else [encoded]
            counts.append(len(windows))
            for window in windows:
                ids += window.ids
                lengths.append(len(window.ids))
        rows = None if self.long == "truncate" else _ends([np.array(counts, np.int64)])
        return Tokens(np.array(ids, self._type), _ends([np.array(lengths, np.int64)]), rows)

    def _encoded(self, texts: list[str]) -> list[Any]:
        """What the library makes of each text; of a text that will be truncated only the beginning is encoded.

        The beginning must give two windows of tokens beyond the first, so that the cut cannot have changed that one.
        """
        if self.long == "windows":
            return self._batch(texts)
        first = max(FIRST, PER_TOKEN * self.max_length)
        encoded = self._batch([_beginning(text, first) for text in texts])
        few = [i for i, text in enumerate(texts) if len(text) > first and len(encoded[i].overflowing) < 2]
        if few:
            again = self._batch([_beginning(texts[i], max(MOST, 4 * first)) for i in few])
            for i, longer in zip(few, again, strict=True):
                encoded[i] = longer
        return encoded

    def _batch(self, texts: list[str]) -> list[Any]:
        with library_errors():
            return self._library.encode_batch_fast(texts, add_special_tokens=True)

    def places(self, text: str) -> tuple[Tokens, Ints, list[tuple[int, int]]]:
        """(tokens of one text, the word of each or -1, where each word stands in the text)."""
        with library_errors():
            first = self._library.encode(_read(text, self.max_length, self.long))
        windows = [first, *first.overflowing] if self.long == "windows" else [first]
        word, spans = _words(text, windows)
        lengths = np.array([len(window.ids) for window in windows], np.int64)
        rows = None if self.long == "truncate" else np.array([0, len(windows)])
        ids: Any = np.array([i for window in windows for i in window.ids], self._type)
        return Tokens(ids, _ends([lengths]), rows), word, spans


def _read(text: str, max_length: int, long: Long) -> str:
    """As much of a text as decides its tokens."""
    return text if long == "windows" else _beginning(text, max(MOST, 4 * max(FIRST, PER_TOKEN * max_length)))


def _words(text: str, windows: list[Any]) -> tuple[Ints, list[tuple[int, int]]]:
    """(word of each token or -1, span of each word): tokens of one word of the pre-tokenizer belong together."""
    numbers: dict[int, int] = {}
    spans: list[tuple[int, int]] = []
    word = []
    for window in windows:
        for number, (start, end) in zip(window.word_ids, window.offsets, strict=True):
            start += len(text[start:end]) - len(text[start:end].lstrip())  # some count the blank before a word
            if number is None or start >= end:
                word.append(-1)
                continue
            at = numbers.setdefault(number, len(spans))
            if at == len(spans):
                spans.append((start, end))
            spans[at] = min(spans[at][0], start), max(spans[at][1], end)
            word.append(at)
    return np.array(word, np.int64), spans


def _beginning(text: str, length: int) -> str:
    """At most `length` characters of a text, up to the end of a word where one is near."""
    if len(text) <= length:
        return text
    ends = (i for i in range(length, length - BACK, -1) if text[i].isspace() and not text[i - 1].isspace())
    return text[: next(ends, length)]


def tokenise(texts: Texts, tokenizer: Tokenizer, job: Job, name: str = "tokens") -> Tokens:
    """Tokens of a whole data set as stages of a job: a killed run resumes after the last finished piece."""

    def encoded(piece: Texts) -> Part:
        return tokenizer.encode(piece).to_part()

    pieces = threads.blocks(len(texts), STAGE)
    if len(pieces) <= 1:
        return Tokens.from_part(job.stage(name, partial(encoded, texts)))

    def every() -> Part:
        made = []
        with progress("tokenising", len(texts)) as bar:
            for i, (a, b) in enumerate(pieces):
                made.append(Tokens.from_part(job.stage(f"{name}-{i:04d}", partial(encoded, texts.span(a, b)))))
                bar.step(b - a)
        return Tokens.concat(made).to_part()

    return Tokens.from_part(job.stage(name, every))
