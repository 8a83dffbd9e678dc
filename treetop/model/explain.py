"""Why a model gives a text its labels: the way to each through every member, with the words behind each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from treetop.core.abilities import HasLabelVectors, HasNearTexts, NearText, Shares
from treetop.core.dataset import RETIRED
from treetop.core.types import Floats, Level, Ranking, View
from treetop.documents.kept import Documents, nearest
from treetop.explain.below import labels_below, most_frequent
from treetop.explain.explanation import Explanation, Joined, Neighbour, Source, Step, Text, Way
from treetop.explain.path import Key, Margin, Pace, walk
from treetop.explain.vocabulary import vocabulary
from treetop.explain.words import columns, words
from treetop.features.namespaced import shares
from treetop.model.model import Model
from treetop.predict.beam import descend
from treetop.predict.blend import KEEP, addends, proportions

NAMES = 3  # labels that say what lies below a node
NEAR = 5  # labels and training texts that are shown
SPARE = 16  # labels looked at beyond these, as some may be retired


@dataclass(frozen=True, eq=False)
class Scored:
    """A member's way to a label: the column it scored, its levels and the paces through them."""

    column: int
    levels: Sequence[Level]
    paces: list[Pace]

    @property
    def score(self) -> float:
        return self.paces[-1].score


def explain(model: Model, text: str, k: int, only: Sequence[int] | None = None) -> list[Explanation]:
    """See `Model.explain`; with `only` just those labels, as far as they are among the best `k`."""
    ranking = model.rank([text], k)
    asked = _Asked(model, text, model.views([text]), len(ranking.ids))
    if only is not None:
        ranking = ranking.where(np.isin(ranking.ids, only))
    sure = model.probabilities(ranking, model.unknown([text]))
    found = [(column, asked.ways(column)) for column in ranking.ids.tolist()]
    told = asked.shares([scored for _, ways in found for scored in ways])
    return [
        Explanation(
            model.labels.ids[column], model.labels.names[column], float(ranking.score[i]),
            None if sure is None else float(sure[i]), int(model.counts[column]), asked.joined(column, ways),
            [asked.way(m, scored, told) for m, scored in enumerate(ways)], asked.neighbours(column),
            asked.texts(column, ways), vocabulary(model.labels, column),
        )
        for i, (column, ways) in enumerate(found)
    ]  # fmt: skip


@dataclass(eq=False)
class _Asked:
    """One text asked of a model for `k` labels."""

    model: Model
    text: str
    views: Mapping[str, View]
    k: int
    known: dict[Key, Margin] = field(default_factory=dict)

    # --- ways -----------------------------------------------------------------------------------------------------

    def ways(self, column: int) -> list[Scored]:
        """For each member the way to the label whose score this one has: its own, or one merged into it."""
        model, n = self.model, len(self.model.members)
        columns_ = [column] if model.overlay is None else model.overlay.sources(column)
        found = [[self._walk(m, source) for m in range(n)] for source in columns_]
        if model.fusion is not None:  # every member brings its best
            return [max((ways[m] for ways in found), key=lambda scored: scored.score) for m in range(n)]
        return max(found, key=lambda ways: sum(self._addends(ways[0].column)) if n > 1 else ways[0].score)

    def _walk(self, m: int, column: int) -> Scored:
        levels, overlay = self.model.members[m], self.model.overlay
        place = None if overlay is None else overlay.place(column)
        if overlay is not None and place is not None:
            levels = [*levels[:-1], overlay.extra[m]]
            return Scored(column, levels, walk(levels, self.views, place, self.known))
        return Scored(column, levels, walk(levels, self.views, column, self.known))

    @cached_property
    def lists(self) -> tuple[list[Ranking], list[Ranking]]:
        """Each member's rankings of trained and of extra labels, as they were averaged; or as a fusion got them."""
        model, wide = self.model, max(self.k, min(KEEP, len(self.model.labels)))
        if model.fusion is not None:
            return model.member_rankings(self.views), []
        if model.overlay is not None:
            return model.overlay.lists(model.members, model.blend, self.views, self.k, model.weights)
        return [descend(member, self.views, wide) for member in model.members], []

    def _listed(self, column: int) -> tuple[list[Ranking], int]:
        """The members' lists in which a label stands, and its number there."""
        trained, extra = self.lists
        place = None if self.model.overlay is None else self.model.overlay.place(column)
        return (trained, column) if place is None or not extra else (extra, place)

    def _addends(self, column: int) -> list[float]:
        lists, node = self._listed(column)
        return addends(lists, self.model.blend, self.model.weights, node)

    # --- how members are joined -----------------------------------------------------------------------------------

    @cached_property
    def recipes(self) -> list[str]:
        return self.model.card.recipes(len(self.model.members))

    @cached_property
    def sources(self) -> list[list[int]]:
        """The members of each source; without a fusion each is one."""
        fusion = self.model.fusion
        sizes = [1] * len(self.model.members) if fusion is None else [n for n, _ in fusion.sources]
        ends = np.cumsum([0, *sizes]).tolist()
        return [list(range(a, a + n)) for a, n in zip(ends, sizes, strict=False)]

    def joined(self, column: int, ways: Sequence[Scored]) -> Joined | None:
        model = self.model
        if model.fusion is not None:
            lists = model.fusion.lists(self.lists[0], model.weights)
            told = model.fusion.told(lists, model.counts, column)
            sources = self._sources(lists, column, told.parts)
            how = model.fusion.scorer.kind.split(".")[1]
            return Joined(how, told.exact, told.total, told.base, told.lift, sources)
        if len(model.members) == 1:
            return None
        lists, node = self._listed(ways[0].column)
        parts = self._addends(ways[0].column)
        return Joined(model.blend, True, sum(parts), 0.0, 1.0, self._sources(lists, node, parts))

    def _sources(self, lists: Sequence[Ranking], node: int, parts: Sequence[float]) -> list[Source]:
        places = [_place(ranking, node) for ranking in lists]
        return [
            Source(self.recipes[members[0]], members, place, score, part)
            for members, (place, score), part in zip(self.sources, places, parts, strict=True)
        ]

    def way(self, m: int, scored: Scored, told: Mapping[Key, Shares]) -> Way:
        """How one member came to its score."""
        model = self.model
        source = next(s for s, members in enumerate(self.sources) if m in members)
        among = self.sources[source] if model.fusion is not None else range(len(model.members))
        weights = proportions(model.weights, len(model.members))
        steps = [self._step(scored, pace, told) for pace in scored.paces]
        place: int | None = None
        score: float | None = scored.score
        if len(model.members) > 1:
            lists, node = self._listed(scored.column)
            place, score = _place(lists[m], node)
        weight = weights[m] / (sum(weights[i] for i in among) or 1.0)
        return Way(self.recipes[m], source, weight, model.labels.ids[scored.column], place, score, steps)

    # --- steps ----------------------------------------------------------------------------------------------------

    def shares(self, ways: Sequence[Scored]) -> dict[Key, Shares]:
        """What words add at every node of the ways; nodes that read one view are asked together."""
        asked: dict[str, dict[Key, Pace]] = {}
        for scored in ways:
            for level, pace in zip(scored.levels, scored.paces, strict=True):
                if pace.gradient is not None:
                    asked.setdefault(level.view, {})[pace.key] = pace
        told: dict[Key, Shares] = {}
        for view, paces in asked.items():
            gradients = [pace.gradient for pace in paces.values() if pace.gradient is not None]
            found = shares(self.model.features, self.text, view, gradients)
            if found is None:
                found = [columns(gradient, self.views[view]) for gradient in gradients]
            told |= dict(zip(paces, found, strict=True))
        return told

    def _step(self, scored: Scored, pace: Pace, told: Mapping[Key, Shares]) -> Step:
        level, model = scored.levels[pace.level], self.model
        names = [model.labels.names[column] for column in self._below(scored, pace)]
        gradient, share = pace.gradient, told.get(pace.key)
        if gradient is None or share is None or pace.margin is None:
            return Step(
                pace.level, pace.node, level.view, names, None, pace.own, pace.score, None, 0.0, "unknown", {}, []
            )
        method = {"weights": "exact" if share.exact else "integrated gradients"}.get(pace.reads, pace.reads)
        base, found = gradient.bias + share.base, words(share)
        if gradient.copied and pace.level:  # as its parent has it
            base, found = pace.margin, []
        gap = pace.margin - base - sum(word.contribution for word in found)
        return Step(
            pace.level, pace.node, level.view, names, pace.margin, pace.own, pace.score, base, gap, method,
            dict(gradient.parts), found,
        )  # fmt: skip

    def _below(self, scored: Scored, pace: Pace) -> list[int]:
        if pace.level == len(scored.levels) - 1:
            return [scored.column]
        member = next(levels for levels in self.model.members if levels[0] is scored.levels[0])
        labels = labels_below(member, pace.level, pace.node)
        return [] if labels is None else most_frequent(labels, self.model.counts, NAMES)

    # --- neighbours -----------------------------------------------------------------------------------------------

    def neighbours(self, column: int) -> list[Neighbour] | None:
        """The labels whose vectors are most like this one's, in the first member whose labels have vectors."""
        model, overlay = self.model, self.model.overlay
        place = None if overlay is None else overlay.place(column)
        for m, levels in enumerate(model.members):
            rank, own = levels[-1].rank, levels[-1].rank
            if overlay is not None and place is not None:
                own = overlay.extra[m].rank
            if isinstance(rank, HasLabelVectors) and isinstance(own, HasLabelVectors):
                vector = own.vector(column if place is None else place)
                ids, cosines = rank.similar(vector, NEAR + SPARE)
                pairs = [
                    (other, cosine) for other, cosine in zip(ids.tolist(), cosines.tolist(), strict=True)
                    if other != column and cosine > 0 and model.labels.status[other] != RETIRED
                ]  # fmt: skip
                names = model.labels
                return [Neighbour(names.ids[c], names.names[c], cosine) for c, cosine in pairs[:NEAR]]
        return None

    @cached_property
    def similarities(self) -> Floats | None:
        """Cosines with all training texts, where the model keeps them."""
        return None if self.model.documents is None else self.model.documents.similarities(self.views)

    def texts(self, column: int, ways: Sequence[Scored]) -> list[Text] | None:
        """The nearest training texts with the label: those that voted, where they do, else of all that are kept."""
        documents, similar = self.model.documents, self.similarities
        for scored in ways:
            level = scored.levels[-1]
            if isinstance(level.rank, HasNearTexts):
                near = level.rank.near_texts(self.views[level.view], scored.column)
                kept = None if documents is None or len(documents) != level.rank.n_documents else documents
                return [_voter(text, kept) for text in near[:NEAR]]
        if documents is None or similar is None:
            return None
        found = nearest(similar, NEAR, documents.carrying(column))
        return [Text(int(documents.rows[d]), float(similar[d]), None, documents.texts[d]) for d in found.tolist()]


def _voter(near: NearText, kept: Documents | None) -> Text:
    """A training text that voted; its own words where the model keeps the very documents that vote."""
    if kept is None:
        return Text(near.row, near.similarity, near.vote, None)
    return Text(int(kept.rows[near.row]), near.similarity, near.vote, kept.texts[near.row])


def _place(ranking: Ranking, node: int) -> tuple[int | None, float | None]:
    """(place from 1, score) of a label in the ranking of a single document; None, None where it is not there."""
    found = np.flatnonzero(ranking.ids == node)
    return (int(found[0]) + 1, float(ranking.score[found[0]])) if len(found) else (None, None)
