"""What the data and the machine are like, and which recipes are worth a trial there."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from treetop.core.dataset import Dataset
from treetop.core.executor.threads import cores
from treetop.core.forecast import available_memory, size
from treetop.core.texts import Texts
from treetop.kernels.text import survey
from treetop.kernels.text.scripts import unspaced_pattern

WORD = re.compile(rf"[^\W\d_]{{3,}}|[{unspaced_pattern()}]")
SAMPLED = 2000  # texts and labels to count words in, about
INFORMATIVE = 0.5  # recipes that read label texts are candidates if this share of labels has words
QUICK = ("xr_linear", "neighbours")
NAMES = ("lexical",)  # finds labels by their names
CPU, GPU = ("unidec:cpu",), ("lightxml", "renee", "unidec")
TOKENS, LONGEST = 1.4, 128  # tokens per word, and per text at most
SPEED = 2000.0  # tokens per second that the default encoder reads on one core
DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # if none exists there is no GPU, and torch need not be loaded


@dataclass(frozen=True)
class Facts:
    """Data and machine in a few numbers."""

    documents: int
    labels: int
    labels_per_document: float
    words_per_document: float
    label_texts: float  # share of labels whose text or name contains a word
    cores: int
    memory: float  # bytes
    label_words: float  # mean number of words in a label's text or name
    gpu: bool
    encoder: bool  # whether torch and the encoder are available on this machine

    @classmethod
    def of(cls, dataset: Dataset, device: str = "auto", encoder: str = "") -> Facts:
        """Facts about the training rows; words are counted on samples. `encoder`: empty for the default one."""
        documents = np.flatnonzero(dataset.documents)
        sample = documents[:: max(1, len(documents) // SAMPLED)]
        words = _words(dataset.texts.take(sample))
        has_encoder, (share, label_words) = _has_encoder(encoder), _label_texts(dataset)
        return cls(
            documents=len(documents), labels=dataset.n_labels,
            labels_per_document=float(dataset.label_counts.sum()) / max(1, len(documents)),
            words_per_document=words, label_texts=share,
            label_words=label_words, cores=cores(), memory=available_memory(),
            gpu=has_encoder and _has_gpu(device), encoder=has_encoder,
        )  # fmt: skip

    def describe(self) -> str:
        """Two lines of text for people."""
        gpu = "a GPU" if self.gpu else "no GPU"
        return (
            f"{self.documents:,} documents of {self.words_per_document:.0f} words, {self.labels:,} labels, "
            f"{self.labels_per_document:.1f} per document; {100 * self.label_texts:.0f} % of the labels have words\n"
            f"{self.cores} cores, {size(self.memory)} of memory, {gpu}"
            f"{'' if self.encoder else ', no encoder (torch is not installed, or the encoder is missing)'}"
        )

    @property
    def candidates(self) -> tuple[str, ...]:
        """Recipes to try, quick ones first; a preset follows a colon (`unidec:cpu`)."""
        if not self.words_per_document:
            return QUICK
        named = self.label_texts >= INFORMATIVE
        quick = (*QUICK, *NAMES) if named else QUICK
        reading = () if not self.encoder else GPU if self.gpu else CPU
        return (*quick, *(name for name in reading if name == "lightxml" or named))

    @property
    def reading(self) -> float:
        """Seconds that the encoder needs to read all texts and label texts once; 0 on a GPU."""
        texts = self.documents * min(TOKENS * self.words_per_document, LONGEST)
        labels = self.labels * min(TOKENS * self.label_words, LONGEST)
        return 0.0 if self.gpu else (texts + labels) / (SPEED * max(1, self.cores))


def _label_texts(dataset: Dataset) -> tuple[float, float]:
    """(share of labels with a word, mean number of words)"""
    labels = dataset.labels
    sample = np.arange(0, len(labels), max(1, len(labels) // SAMPLED))
    pairs = zip(labels.texts.take(sample), labels.names.take(sample), strict=True)
    texts = Texts.of(text or name for text, name in pairs)
    if not texts:
        return 0.0, 0.0
    return float(np.mean([bool(WORD.search(text)) for text in texts])), _words(texts)


def _words(texts: Texts) -> float:
    """Mean number of words of a text; a character of a script without blanks counts as one, as it does in encoders."""
    words = sum(len(text.split()) for text in texts) + survey.unspaced_letters(texts.blob)
    return words / max(1, len(texts))


def _has_encoder(name: str) -> bool:
    if not all(importlib.util.find_spec(package) for package in ("torch", "transformers", "tokenizers")):
        return False
    from treetop.features.encoder.sources import DEFAULT, local_config

    return bool(local_config(name or DEFAULT))


def _has_gpu(device: str) -> bool:
    if device == "cpu" or (device == "auto" and not any(Path(file).exists() for file in DRIVERS)):
        return False
    from treetop.tensors import devices

    return devices.pick(device).type == "cuda"
