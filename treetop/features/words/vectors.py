"""Where word vectors come from: the token vectors of an encoder, a GloVe text file, or a folder of words and vectors.

Whatever the source, the result is a `tokenizer.json` that turns texts into word ids, and one vector per id. With an
encoder these are word pieces, which cover every text; with a file they are whole words: words of the training texts
that are missing from the file get new vectors, all others share one.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from treetop.core.config import setting
from treetop.core.errors import ConfigError, extra
from treetop.core.texts import Texts
from treetop.core.types import Floats
from treetop.features.encoder.sources import DEFAULT, find_encoder, place_of
from treetop.features.encoder.tokenizer_file import read_tokenizer

UNKNOWN = "[UNK]"
LONGEST = 2**14  # maximum words per text
PIECES = r"[\p{L}\p{M}]+|\p{N}+"  # words without digits, and numbers


@dataclass(frozen=True, kw_only=True)
class WordsConfig:
    """Source of the word vectors."""

    model: str = setting(
        DEFAULT,
        "word vectors: a GloVe file (.txt, .gz), a folder of words.txt and .npy, or an encoder's token embeddings",
    )
    max_length: int = setting(32, "maximum words or word pieces per text", low=1, high=LONGEST)
    pca_dim: int = setting(0, "dimension after PCA of the word vectors; 0: no reduction", low=0, high=4096)
    vocab_size: int = setting(
        100_000, "vocabulary size with a file: words of the texts first, then in the file's order", low=1
    )
    min_count: int = setting(2, "minimum frequency for a word that is not in the file to get a vector", low=1)


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A vector for every token id of the tokenizer."""

    tokenizer: bytes
    vectors: Floats  # (words, width)


def find_vectors(config: WordsConfig, texts: Texts, *, seed: int = 0) -> WordVectors:
    """The word vectors behind a name; `texts` decide which words of a file are kept."""
    place = place_of(config.model)
    if place.is_dir() and (place / "words.txt").is_file():
        return _of_words(_from_folder(place), config, texts, seed)
    if place.is_file():
        return _of_words(_from_file(place), config, texts, seed)
    if place.suffix in (".txt", ".gz", ".vec"):
        raise ConfigError(f"encoder.model: no file '{config.model}'. Give a GloVe file, a folder or an encoder.")
    return _from_encoder(config)


def _from_encoder(config: WordsConfig) -> WordVectors:
    source = find_encoder(config.model)
    settings = read_tokenizer(source.tokenizer)
    settings["post_processor"] = None  # no special tokens: they would take two positions of a short text
    size = source.config.get("vocab_size")
    tables = [table for table in source.weights.values() if table.ndim == 2 and table.shape[0] == size]
    if not tables:
        raise ConfigError(f"encoder.model: '{source.name}' has no token vectors. Choose another encoder.")
    return WordVectors(json.dumps(settings).encode(), narrowed(np.array(tables[0], np.float32), config.pca_dim))


def _from_folder(folder: Path) -> Iterator[tuple[str, Any]]:
    files = sorted(folder.glob("*.npy"))
    if len(files) != 1:
        raise ConfigError(
            f"encoder.model: {folder} has {len(files)} .npy files next to words.txt; exactly one is needed."
        )
    words = (folder / "words.txt").read_text(encoding="utf-8").split("\n")
    try:
        vectors = np.load(files[0], mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError):
        raise ConfigError(f"encoder.model: {files[0]} is not an array of numbers. Save it with numpy.save.") from None
    words = words[:-1] if words[-1] == "" else words
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise ConfigError(f"encoder.model: {folder} has {len(words):,} words for vectors of shape {vectors.shape}.")
    yield from zip(words, vectors, strict=True)


def _from_file(file: Path) -> Iterator[tuple[str, Any]]:
    """Lines `word number number ...`; a first line of two numbers (word2vec's header) is skipped."""
    opened = gzip.open if file.suffix == ".gz" else open
    width = 0
    with opened(file, "rt", encoding="utf-8", errors="replace", newline="\n") as lines:
        for i, line in enumerate(lines, 1):
            fields = line.rstrip().split(" ")
            if i == 1 and len(fields) == 2:
                continue
            width = width or len(fields) - 1
            if len(fields) <= width or width < 2:
                others = f", others {width}" if width > 1 else ""
                raise ConfigError(
                    f"encoder.model: {file}:{i} has {len(fields) - 1} numbers{others}. Every word needs equally many, "
                    "two or more, on one line."
                )
            yield " ".join(fields[:-width]), fields[-width:]


def _of_words(entries: Iterator[tuple[str, Any]], config: WordsConfig, texts: Texts, seed: int) -> WordVectors:
    tokenizers = extra("tokenizers", "torch")
    counter = _cutter(tokenizers, {UNKNOWN: 0})
    trainer = tokenizers.trainers.WordLevelTrainer(
        min_frequency=1, vocab_size=1 << 31, special_tokens=[UNKNOWN], show_progress=False
    )
    counter.train_from_iterator(iter(texts), trainer)
    text_words = set(counter.get_vocab())
    vectors_by_word: dict[str, Any] = {}
    for i, (word, numbers) in enumerate(entries):
        key = word.lower()
        if (i < config.vocab_size or key in text_words) and (key not in vectors_by_word or word == key):
            vectors_by_word[key] = _numbers(word, numbers)
    if not vectors_by_word:
        raise ConfigError(f"encoder.model: {config.model} holds no word vectors. Give lines such as: cat 0.1 -0.2")
    frequent = _cutter(tokenizers, {UNKNOWN: 0})
    frequent_trainer = tokenizers.trainers.WordLevelTrainer(
        min_frequency=config.min_count, vocab_size=1 << 31, special_tokens=[UNKNOWN], show_progress=False
    )
    frequent.train_from_iterator(iter(texts), frequent_trainer)
    by_frequency = sorted(frequent.get_vocab().items(), key=lambda item: item[1])
    known = [word for word in vectors_by_word if word in text_words]
    fresh = [word for word, _ in by_frequency if word != UNKNOWN and word not in vectors_by_word]
    rest = [word for word in vectors_by_word if word not in text_words][
        : max(0, config.vocab_size - len(known) - len(fresh))
    ]
    if not known and not rest:
        raise ConfigError(
            f"encoder.vocab_size: with {config.vocab_size} no word of {config.model} is left, "
            "as none is in the texts. Raise it."
        )
    vectors = np.stack([vectors_by_word[word] for word in (*known, *rest)])
    if len(bad := np.flatnonzero(~np.isfinite(vectors).all(1))):
        raise ConfigError(
            f"encoder.model: {config.model} has numbers that are not finite for the word "
            f"'{(*known, *rest)[bad[0]]}'. Fix or drop its line."
        )
    # Words without a vector start near the mean of all others: uninformative.
    rng = np.random.default_rng([seed, 5])
    middle, spread = vectors.mean(0), 0.1 * float(vectors.std())
    others = middle + spread * rng.standard_normal((len(fresh) + 1, vectors.shape[1]))
    table = np.concatenate([others, vectors]).astype(np.float32)
    vocabulary = {word: i for i, word in enumerate([UNKNOWN, *fresh, *known, *rest])}
    return WordVectors(_cutter(tokenizers, vocabulary).to_str().encode(), narrowed(table, config.pca_dim))


def _numbers(word: str, numbers: Any) -> Floats:
    try:
        return np.array(numbers, np.float32)
    except ValueError:
        raise ConfigError(f"encoder.model: the vector of '{word}' contains something that is not a number.") from None


def _cutter(tokenizers: Any, vocabulary: dict[str, int]) -> Any:
    """Lower-case words and numbers; everything between them is dropped."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.NFKC(), tokenizers.normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(PIECES), "removed", invert=True)
    return tokenizer


def narrowed(vectors: Floats, width: int) -> Floats:
    """The first `width` principal components of the vectors; 0: the vectors unchanged."""
    if width == 0 or width == vectors.shape[1]:
        return vectors
    if width > vectors.shape[1]:
        raise ConfigError(
            f"encoder.pca_dim: {width}, but the vectors have dimension {vectors.shape[1]}. Use a smaller value."
        )
    centred = vectors - vectors.mean(0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :width]
    axes = axes * np.where(axes.sum(0) < 0, -1.0, 1.0)  # fixes the signs, which differ between libraries
    return np.ascontiguousarray(centred @ axes, np.float32)
