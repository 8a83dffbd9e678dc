"""An encoder with the data set's tokens, prepared once for several trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from treetop.core.dataset import Dataset
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.core.types import Floats
from treetop.core.work import Job
from treetop.features.encoder.tokens import Tokens, log_lengths, tokenise
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.features.learned import Learned
from treetop.features.words.bag import Bag, rarity
from treetop.features.words.layers import Task as View
from treetop.features.words.vectors import WordsConfig, WordVectors, find_vectors
from treetop.features.words.words import Words
from treetop.network.inputs import Cached, CachedWindows, Encoded, Inputs, Windows
from treetop.tensors import devices
from treetop.tensors.packed import TokenRows
from treetop.tensors.warmup import Warmup


@dataclass(frozen=True, eq=False)
class Prepared:
    """Trainable features, and the data set's texts as tokens."""

    features: Any  # a `Transformer`, or another `Learned`
    tokens: Tokens
    device: torch.device
    warmup: Warmup | None = None

    def with_features(self, features: Any) -> Prepared:
        """The same tokens read by other features."""
        return Prepared(features, self.tokens, self.device)

    def wait(self) -> None:
        """Wait for GPU kernels that are still being compiled."""
        if self.warmup is not None:
            self.warmup.wait()

    def learning(self, *, compiled: bool = False) -> Encoded:
        """Views by the encoder as it learns."""
        encoder, pools = self.features.encoder.to(self.device), self.features.window_pools
        return Encoded(encoder, self._store(self.tokens), self.features.poolings, compiled=compiled, pools=pools)

    def _store(self, tokens: Tokens) -> TokenRows:
        return TokenRows(tokens.ids, tokens.offsets, self.device, tokens.rows)

    def frozen(self, job: Job, name: str = "views", *, pooled: bool = False) -> Cached:
        """Views by the encoder as it is, made once; one stage. `pooled`: windows too are pooled once, as learned."""
        by_window = self.features.window_pools is not None and not pooled

        def make() -> Part:
            reads = None if self.tokens.rows is not None else job.reads
            if by_window:
                return Part("stage.views.1", {}, self._of_windows(self.tokens))
            views = self._kept(self.vectors()) if reads is None else self._remembered(reads)
            return Part("stage.views.1", {}, views)

        views = job.stage(name, make).arrays
        return self._by_window(views, self.tokens) if by_window else Cached(views, self.tokens.lengths, self.device)

    def _of_windows(self, tokens: Tokens) -> dict[str, NDArray[np.float16]]:
        """The vectors of all windows by the short names of their views, not scaled."""
        return self._kept(self.vectors(tokens=Tokens(tokens.ids, tokens.offsets), scaled=False))

    def _by_window(self, views: Mapping[str, NDArray[Any]], tokens: Tokens) -> CachedWindows:
        features, rows = self.features, tokens.rows if tokens.rows is not None else np.arange(len(tokens) + 1)
        windows = Windows(rows, features.window_pools, features.l2)
        return CachedWindows(views, windows, tokens.lengths, self.device)

    def _remembered(self, reads: dict[Any, Any]) -> dict[str, NDArray[np.float16]]:
        """The same, of which texts that an earlier training has read are not read again."""
        part = self.features.to_part()
        some = next(iter(part.arrays.values())).reshape(-1)[:1000]
        known = reads.setdefault((str(part.config), some.tobytes()), {})  # of this encoder
        keys = [self.tokens.ids[start:end].tobytes() for start, end in pairwise(self.tokens.offsets.tolist())]
        new = list({key: row for row, key in enumerate(keys) if key not in known}.values())
        if new:
            fresh = self._kept(self.vectors(tokens=self.tokens.take(np.array(new, np.int64))))
            for place, row in enumerate(new):
                known[keys[row]] = {name: view[place] for name, view in fresh.items()}
        names = known[keys[0]] if keys else {}
        return {name: np.stack([known[key][name] for key in keys]) for name in names}

    def _kept(self, vectors: Mapping[str, Floats]) -> dict[str, NDArray[np.float16]]:
        """Vectors of a frozen encoder by the short names of their views."""
        prefix = f"{self.features.name}/"
        return {name.removeprefix(prefix): vector.astype(np.float16) for name, vector in vectors.items()}

    def beside(self, texts: Texts, inputs: Inputs) -> Inputs:
        """Other texts, read as `inputs` read the data set's: by the same encoder, or by a frozen one."""
        tokens = self.features.tokenizer.encode(texts)
        if isinstance(inputs, Encoded):
            return inputs.over(self._store(tokens))
        if isinstance(inputs, CachedWindows):
            return self._by_window(self._of_windows(tokens), tokens)
        return Cached(self._kept(self.vectors(tokens=tokens)), tokens.lengths, self.device)

    def vectors(
        self, poolings: Sequence[Any] = (), tokens: Tokens | None = None, *, scaled: bool = True
    ) -> dict[str, Floats]:
        """(rows, width) per view, or for these only, by the current encoder: on a copy, as a GPU rounds weights."""
        copy = type(self.features).from_part(self.features.to_part()).move(self.device)
        copy.poolings, copy.l2 = tuple(poolings) or copy.poolings, copy.l2 and scaled
        return copy.vectors(self.tokens if tokens is None else tokens, say="encoding texts")


def prepare(
    dataset: Dataset,
    config: TransformerConfig,
    job: Job,
    *,
    name: str = "encoder",
    dropout: float | None = None,
    frozen: bool = False,
) -> Prepared:
    """Load the encoder and tokenise the texts once; GPU kernels for its training are compiled at the same time."""
    device = devices.pick(job.device)
    transformer = Transformer.load(config, name=name, dropout=dropout, attention_dropout=dropout)
    warmup = Warmup(None if frozen else transformer.encoder.shapes, device)
    return Prepared(transformer, read_tokens(dataset, transformer, job), device, warmup)


def prepare_words(
    dataset: Dataset, config: WordsConfig, net: tuple[str, Any], views: Sequence[View], *, name: str, seed: int,
    job: Job, more: Texts | None = None,
) -> Prepared:  # fmt: skip
    """An untrained network over word vectors, its name and settings given, and texts as numbers.

    `more` are other texts it will read, whose words are wanted too. Bags know how rare words are.
    """
    device = devices.pick(job.device)  # report a missing one before any work

    def find() -> Part:
        texts = dataset.texts if more is None else Texts.concat([dataset.texts, more])
        found = find_vectors(config, texts, seed=job.seed)
        return Part("stage.words.1", {}, {"vectors": found.vectors}, files={"tokenizer.json": found.tokenizer})

    part = job.stage("words", find)
    table = WordVectors(part.files["tokenizer.json"], np.array(part.arrays["vectors"]))
    words = Words.untrained(*net, table, max_length=config.max_length, views=views, seed=seed, name=name)
    tokens = read_tokens(dataset, words, job)
    if isinstance(words.encoder, Bag):
        words.encoder.weigh(rarity(tokens, words.encoder.vocabulary))
    return Prepared(words, tokens, device)


def read_tokens(dataset: Dataset, features: Learned[Any], job: Job) -> Tokens:
    """The texts as the numbers these features read."""
    tokens = tokenise(dataset.texts, features.tokenizer, job)
    log_lengths(tokens, features.tokenizer)
    return tokens
