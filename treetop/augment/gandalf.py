"""Gandalf (KDD 2024): label texts as additional training texts, with co-occurring labels as soft targets.

The text of label j is a row whose target for label l is P(l | j), the fraction of j's texts that have l too, if above
`delta`; 1 for j itself. Most labels have fewer than five texts, and their own text ties them to labels that have more.
Model and prediction are unchanged. Filter pairs are not counted; one that excludes a label for a text also excludes it
for a label text equal to that text, and a label excluded for its own text gets no row. Labels with equal text get the
largest of their targets; a label without texts has only itself as target.

Deviations: `delta` is 0.2 and 1 is added to each label frequency (`shrinkage`), so that a single co-occurrence with a
label of one text is uncertain; the paper has 0.1 and no shrinkage.
"""

from __future__ import annotations

from dataclasses import dataclass

from treetop.assemble.label_graph import share_graph_stage
from treetop.augment.label_texts import RowsConfig, added_rows, needs_of, with_label_texts
from treetop.augment.offers import Offers
from treetop.core.config import setting
from treetop.core.dataset import Dataset
from treetop.core.work import Job
from treetop.labels.graph import Needs, ShareConfig, counted, share_needs

NAME = "gandalf"


@dataclass(frozen=True, kw_only=True)
class Config(ShareConfig, RowsConfig):
    """Settings of `gandalf`."""

    delta: float = setting(0.2, "threshold on the co-occurrence probability P(other label | label)", low=0.0, high=1.0)
    shrinkage: float = setting(
        1.0, "shrinkage: added to the label frequency in the denominator of P(other label | label)", low=0
    )


def needs(config: Config) -> list[str]:
    """Rows with soft targets."""
    return needs_of(config, "soft")


def forecast(dataset: Dataset, config: Config) -> Needs:
    """Memory and time of the graph."""
    return share_needs(counted(dataset), config)


def rows(dataset: Dataset, config: Config, job: Job) -> Dataset:
    """The data set with label texts as rows."""
    return with_label_texts(dataset, share_graph_stage(dataset, config, job, NAME), config, NAME, job.seed)


OFFERS = Offers(rows=rows, added=added_rows, forecast=forecast)
