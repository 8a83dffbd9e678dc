"""Lexical matching: names of labels are found in the text and ranked by a small model learned from few texts.

Features: forms of labels (names, alternative names, names without their qualifier) as sets of stemmed words, found in
the text in any order. Tree: flat. Shortlist: labels whose form is found, and the most frequent labels. Rank: boosted
trees over the match (how much of the form, where, how often, how close together, inside a longer form), the form (how
many labels share it, how rare its words are), the label (how frequent it is, how often it is right where it is found,
related labels that are found too). Key idea: a label needs no training text to be found, so a few hundred texts are
enough to train on, and rare labels are found as easily as frequent ones. Measured with 400 and 18,000 titles, beside
Annif's MLLM and in blends, in `benchmarks/results/lexical-choice.jsonl`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treetop.assemble.lexical import learn, table_of
from treetop.assemble.stated_language import with_stated_language
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.forecast import COMPILED, Forecast, data_memory
from treetop.core.types import Join, Level
from treetop.core.work import Job
from treetop.features.lexical.forms import collect
from treetop.features.lexical.matches import VIEW, Matches
from treetop.kernels.boosting import Boosting
from treetop.kernels.text.matching import LONGEST
from treetop.model import Model
from treetop.rank.lexical import Lexical
from treetop.shortlist.everything import Everything

GROUP = "baselines"
REFITS = True  # quick enough to train on all documents again, once scores are calibrated on held-out ones
TUNES = {  # settings that `treetop tune` tries
    "share": [0.5, 0.7, 1.0],
    "frequent": [5, 20, 100],
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of `lexical`."""

    language: str = setting(
        "auto", "language of the stemmer (english, finnish, ...); auto: that of the data; empty: plural s only"
    )
    share: float = setting(0.5, "share of a name's weight that its words in the text must have", low=0.1, high=1.0)
    max_words: int = setting(8, "words of a name; longer ones are not looked for", low=1, high=LONGEST)
    frequent: int = setting(20, "most frequent labels, which are candidates even where no name is found", low=0)
    trees: int = setting(60, "boosted trees", low=1)
    depth: int = setting(4, "depth of a tree", low=1, high=8)
    rate: float = setting(0.1, "learning rate of the trees", low=0.001, high=1.0)


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Forms of labels, and matches of the training texts."""
    names = len(dataset.labels.names.blob) + len(dataset.labels.texts.blob)
    model = 5.0 * names + 40.0 * dataset.n_labels
    words = len(dataset.texts.blob) / 6.0
    return Forecast(
        memory=COMPILED + data_memory(dataset) + 4 * model + 150.0 * words, model=model, time=5 + words / 1e5
    )


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Collect the forms, find them in the training texts and learn to rank them."""
    config = with_stated_language(config, dataset)
    documents = dataset.texts.take(np.flatnonzero(dataset.documents))
    forms = collect(dataset.labels, documents, config.language, config.max_words)
    features = Matches.of(forms, config.share)
    table = table_of(forms, dataset.labels, dataset.label_counts, config.frequent)
    how = Boosting(trees=config.trees, depth=config.depth, rate=config.rate)
    part = job.stage("lexical", lambda: learn(features, dataset, table, how, job.seed).to_part())
    rank = Lexical.from_part(part)
    return Model.over(
        dataset, {"matches": features}, [[Level(VIEW, Everything(dataset.n_labels), rank, Join("sigmoid"))]]
    )
