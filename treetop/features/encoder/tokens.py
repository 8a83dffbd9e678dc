"""Texts as token ids, computed once and kept in a memory-mapped file: ids end to end, and row offsets.

A text longer than `max_length` is cut, or becomes several windows whose vectors are averaged later: the first, and
others spread evenly over the text, `max_windows` at most.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treetop.core.dataset import Ints
from treetop.core.errors import ConfigError, extra
from treetop.core.log import logger, progress
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.work import Job
from treetop.features.encoder.tokenizer_file import library_errors, read_tokenizer
from treetop.features.views import TOLD
from treetop.kernels.runtime import threads

Long = Literal["truncate", "windows"]
STAGE = 200_000  # texts in one resumable piece
BLOCK = 2_000  # texts a thread takes at a time
# Characters of a text that are tokenised where it is cut: first so many, and the most where these give too few tokens.
FIRST, PER_TOKEN, MOST = 4096, 32, 1 << 17
MASKS = ("[MASK]", "<mask>")
BLANKS = (*MASKS, "[PAD]", "<pad>")
BACK = 256  # characters within which a cut moves back to white space


class Window(NamedTuple):
    """A part of a text as the library encoded it, where that part begins, and its number among the parts."""

    encoded: Any
    start: int = 0
    part: int = 0


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

    def __init__(self, raw: bytes, max_length: int, long: Long = "truncate", max_windows: int = 0) -> None:
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
        self.raw, self.max_length, self.long, self.max_windows = raw, max_length, long, max_windows
        self.size: int = max([-1, *special, *tokenizer.get_vocab(True).values()]) + 1
        self._library = tokenizer
        self._type = np.uint16 if self.size <= 1 << 16 else np.uint32

    @property
    def blank(self) -> int | None:
        """The token that stands for a hidden word, else the one that fills up; None: it has neither."""
        found = [self._library.token_to_id(name) for name in BLANKS]
        return next((token for token in found if token is not None), None)

    @property
    def mask(self) -> int | None:
        """The token for a hidden word; None: it has none."""
        found = [self._library.token_to_id(name) for name in MASKS]
        return next((token for token in found if token is not None), None)

    @property
    def special(self) -> Ints:
        """Tokens that are not of a text: those put around it, and those that the tokenizer calls special."""
        around = self._library.encode("a")
        ids = {token for token, is_special in zip(around.ids, around.special_tokens_mask, strict=True) if is_special}
        ids |= {token for token, added in self._library.get_added_tokens_decoder().items() if added.special}
        return np.array(sorted(ids), np.int64)

    def encode(self, texts: Texts) -> Tokens:
        """Token ids of a batch, on as many threads as allowed."""
        if len(texts) <= BLOCK:
            return self._block(texts)
        return Tokens.concat(threads.run(lambda a, b: self._block(texts.span(a, b)), threads.blocks(len(texts), BLOCK)))

    def cut(self, texts: Texts) -> dict[int, NDArray[np.bool_]]:
        """{`max_length`: which texts have as many tokens or more}; empty where windows read all of them.

        A token has a byte at least, so that short texts need not be tokenised to know.
        """
        if self.long != "truncate":
            return {}
        cut = texts.lengths() + len(self.special) >= self.max_length
        rows = np.flatnonzero(cut)
        cut[rows] = self.encode(texts.take(rows)).lengths >= self.max_length
        return {self.max_length: cut}

    def _block(self, texts: Texts) -> Tokens:
        ids: list[int] = []
        lengths, counts = [], []
        for windows in self._windows(list(texts), self._library.encode_batch_fast):
            counts.append(len(windows))
            for window in windows:
                ids += window.encoded.ids
                lengths.append(len(window.encoded.ids))
        rows = None if self.long == "truncate" else _ends([np.array(counts, np.int64)])
        return Tokens(np.array(ids, self._type), _ends([np.array(lengths, np.int64)]), rows)

    def _windows(self, texts: list[str], encode: Callable[[list[str]], list[Any]]) -> list[list[Window]]:
        """The windows of each text that are read."""
        with library_errors():
            if self.long == "truncate":
                return [[Window(encoded)] for encoded in self._beginnings(texts, encode)]
            cut = [self._parts(text) for text in texts]
            encoded = iter(encode([part for parts in cut for _, part in parts]))
            return [self._selected([(start, next(encoded)) for start, _ in parts]) for parts in cut]

    def _beginnings(self, texts: list[str], encode: Callable[[list[str]], list[Any]]) -> list[Any]:
        """What the library makes of texts that will be truncated; only their beginning is encoded.

        The beginning must give two windows of tokens beyond the first, so that the cut cannot have changed that one.
        """
        first = max(FIRST, PER_TOKEN * self.max_length)
        encoded = encode([_beginning(text, first) for text in texts])
        few = [i for i, text in enumerate(texts) if len(text) > first and len(encoded[i].overflowing) < 2]
        if few:
            again = encode([_beginning(texts[i], max(MOST, 4 * first)) for i in few])
            for i, longer in zip(few, again, strict=True):
                encoded[i] = longer
        return encoded

    def _parts(self, text: str) -> list[tuple[int, str]]:
        """(start, part): the text; of one so long that encoding it whole would take long, a part for each window."""
        size = max(FIRST, PER_TOKEN * self.max_length)
        if not self.max_windows or len(text) <= max(MOST, size * self.max_windows):
            return [(0, text)]
        starts = [round(at) for at in np.linspace(0, len(text) - size, self.max_windows)]
        starts = [len(_beginning(text, start)) if start else 0 for start in starts]
        return [(start, _beginning(text[start : start + size + 1], size)) for start in starts]

    def _selected(self, parts: list[tuple[int, Any]]) -> list[Window]:
        """The first window and others spread evenly; of several parts the first window of each."""
        if len(parts) > 1:
            return [Window(encoded, start, part) for part, (start, encoded) in enumerate(parts)]
        windows = [Window(encoded) for encoded in (parts[0][1], *parts[0][1].overflowing)]
        if not self.max_windows or len(windows) <= self.max_windows:
            return windows
        return [windows[round(at)] for at in np.linspace(0, len(windows) - 1, self.max_windows)]

    def places(self, text: str) -> tuple[Tokens, Ints, list[tuple[int, int]]]:
        """(tokens of one text, the word of each or -1, where each word stands in the text)."""
        [windows] = self._windows([text], self._library.encode_batch)
        word, spans = _words(text, windows)
        lengths = np.array([len(window.encoded.ids) for window in windows], np.int64)
        rows = None if self.long == "truncate" else np.array([0, len(windows)])
        ids: Any = np.array([i for window in windows for i in window.encoded.ids], self._type)
        return Tokens(ids, _ends([lengths]), rows), word, spans


def _words(text: str, windows: list[Window]) -> tuple[Ints, list[tuple[int, int]]]:
    """(word of each token or -1, span of each word): tokens of one word of the pre-tokenizer belong together."""
    numbers: dict[tuple[int, int], int] = {}
    spans: list[tuple[int, int]] = []
    word = []
    for window in windows:
        for number, place in zip(window.encoded.word_ids, window.encoded.offsets, strict=True):
            start, end = window.start + place[0], window.start + place[1]
            start += len(text[start:end]) - len(text[start:end].lstrip())  # some count the blank before a word
            if number is None or start >= end:
                word.append(-1)
                continue
            at = numbers.setdefault((window.part, number), len(spans))
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


def log_lengths(tokens: Tokens, tokenizer: Tokenizer) -> None:
    """Say how long texts are, and where the encoder does not read all of them."""
    logger.info("%s tokens, %.1f per text", f"{int(tokens.offsets[-1]):,}", tokens.lengths.mean())
    cut = int((tokens.lengths >= tokenizer.max_length).sum())
    if tokenizer.long == "truncate" and cut > TOLD * len(tokens):
        logger.warning(
            "%s of %s texts have %d tokens or more, of which only the first %d are read. To read more of them, raise "
            "the setting max_length or, of an encoder, set long_texts=windows",
            f"{cut:,}", f"{len(tokens):,}", tokenizer.max_length, tokenizer.max_length,
        )  # fmt: skip


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
