"""The shape of an explanation: `to_dict` is what `treetop explain --json` prints (docs/explain.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Word:
    """A term or word of the text, its part of a margin, and where it stands: (start, end) in characters."""

    term: str
    contribution: float
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Step:
    """One level on the way to a label; margin = base + the words' contributions + gap."""

    level: int
    node: int
    view: str  # what it reads of the text
    names: list[str]  # the most frequent labels below the node; the label itself on the last level
    margin: float | None  # None: its rank does not tell
    own: float
    score: float
    base: float | None  # the margin without any words: for linear levels the bias
    gap: float
    method: str  # "exact", "integrated gradients", "votes", "count" or "unknown"
    parts: dict[str, float]  # what each head adds to the margin, where there are several
    words: list[Word]  # by size of contribution


@dataclass(frozen=True)
class Way:
    """How one member came to its score of the label."""

    recipe: str
    source: int  # which source of the blend or fusion it belongs to
    weight: float  # in its average, as a share of all
    label: str  # the id of the label it scored: another one where labels were merged
    place: int | None  # in its list, from 1; None: it did not return the label
    score: float | None  # as it counts in the average; None where it did not return the label
    steps: list[Step]


@dataclass(frozen=True)
class Source:
    """What one source adds to the score: to the average, or to the log odds of a fusion."""

    recipe: str
    members: list[int]
    place: int | None
    score: float | None
    part: float


@dataclass(frozen=True)
class Joined:
    """How sources became one score."""

    how: str  # "average", "rank_average", "softmax_average", "logistic", "boosted" or another fusion
    exact: bool  # parts sum to the total; False: each is the difference that source makes
    total: float  # the score of an average, the log odds of a fusion
    base: float  # of a fusion: its bias and what the label's frequency adds
    lift: float  # of a fusion: what the probability is multiplied by, as rare labels are lifted
    sources: list[Source]


@dataclass(frozen=True)
class Neighbour:
    """A label whose vector points nearly the same way."""

    id: str
    label: str
    similarity: float


@dataclass(frozen=True)
class Named:
    """A label by id and name."""

    id: str
    label: str


@dataclass(frozen=True)
class Vocabulary:
    """What the vocabulary says of a label: its alternative names, broader and related labels."""

    alt: list[str]
    broader: list[Named]
    related: list[Named]


@dataclass(frozen=True)
class Text:
    """A training text that carries the label and resembles the text."""

    row: int  # in the training data, from 0
    similarity: float
    vote: float | None  # its part of the score; None: training texts do not vote
    text: str | None  # None: the model keeps no training texts


@dataclass(frozen=True)
class Explanation:
    """Why a text got a label."""

    id: str
    label: str
    score: float
    probability: float | None  # None: the model is not calibrated
    count: int  # training texts that carry the label
    joined: Joined | None  # None: one member
    members: list[Way]
    neighbours: list[Neighbour] | None  # None: its labels have no vectors
    texts: list[Text] | None  # nearest first; None: the model neither keeps training texts nor lets them vote
    vocabulary: Vocabulary | None  # None: the vocabulary says nothing of this label

    @property
    def words(self) -> list[Word]:
        """The words behind the label itself, in the member with the largest weight that has any."""
        last = [way.steps[-1].words for way in sorted(self.members, key=lambda way: -way.weight)]
        return next((words for words in last if words), [])

    def to_dict(self) -> Mapping[str, Any]:
        """Plain data."""
        return asdict(self)
