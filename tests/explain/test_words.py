import dataclasses
import json

import numpy as np
import pytest

import toy
import toy_heads
import treetop
from faithful import falls
from treetop.explain.explanation import Word
from treetop.explain.words import marked
from treetop.kernels.boosting import Trees
from treetop.predict.fuse.boosted import Boosted
from treetop.predict.fuse.fuse import Fusion, probability
from treetop.predict.fuse.logistic import Logistic
from treetop.predict.fuse.rarity import Rarity

TEXT = "cat birds and cat horses"


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("xr_linear", {"tree": {"max_leaf": 5, "branching": 2}, "tfidf": {"min_df": 1}}),
        ("xr_linear", {"tree": {"max_leaf": 5}, "linear": {"storage": "int8"}, "trees": 2}),
        ("bonsai", {"tree": {"max_leaf": 5, "branching": 4}, "trees": 1}),
        ("extremetext", {"tree": {"max_leaf": 5}}),
    ],
)
def test_words_add_up_to_margins_and_levels_to_the_score(recipe, settings):
    model = treetop.fit(recipe, toy.dataset(n=200), settings=settings)
    for text in list(toy.dataset(1).texts)[:40]:
        explained = model.explain(text, k=5)
        assert len(explained) == 5
        for found in explained:
            for way in found.members:
                for step in way.steps:
                    total = step.base + sum(word.contribution for word in step.words)
                    assert abs(total - step.margin) < 1e-5 and abs(step.gap) < 1e-5
                    assert all(word.term in text for word in step.words)
                    sizes = [abs(word.contribution) for word in step.words]
                    assert sizes == sorted(sizes, reverse=True)
                assert way.score is None or abs(way.steps[-1].score - way.score) < 1e-5
            if found.joined is None:
                assert abs(found.members[0].score - found.score) < 1e-5
            else:
                assert sum(source.part for source in found.joined.sources) == pytest.approx(found.score, abs=1e-6)


@pytest.mark.parametrize("recipe", ["xr_linear", "neighbours", "dismec"])
def test_without_its_best_word_a_label_loses_at_least_twice_as_much_as_without_another(recipe):
    top, random, n = falls(treetop.fit(recipe, toy.dataset(n=200)), toy.dataset(seed=3, n=20).texts)
    assert n >= 24 and top >= 2 * random


def test_popular_says_the_count_and_neighbours_their_texts():
    data = toy.dataset()
    (found,) = treetop.fit("popular", data).explain("a cat", 1)
    assert found.words == [] and found.members[0].steps[0].method == "count" and found.neighbours is None
    assert found.count == data.label_counts.max() and found.score == pytest.approx(found.count / len(data))
    (found,) = treetop.fit("neighbours", data, settings={"k": 60}).explain(data.texts[0], 1)
    assert found.texts[0].row == 0 and found.texts[0].similarity == pytest.approx(1, abs=1e-5)
    assert all(data.Y[text.row, data.labels.find(found.id)] for text in found.texts)


def test_nodes_are_named_after_their_most_frequent_labels():
    data = toy.dataset(n=200)
    model = treetop.fit("xr_linear", data, settings={"tree": {"max_leaf": 5, "branching": 2}})
    (found,) = model.explain(TEXT, 1)
    member = model.members[0]
    for step in found.members[0].steps[:-1]:
        nodes = [step.node]
        for level in member[step.level + 1 :]:
            at = level.shortlist
            nodes = [int(c) for node in nodes for c in at.children[at.indptr[node] : at.indptr[node + 1]]]
        best = sorted(nodes, key=lambda c: (-data.label_counts[c], c))[:3]
        assert step.names == [data.labels.names[c] for c in best]


@pytest.mark.parametrize("recipe", ["xr_linear", "dismec"])
@pytest.mark.parametrize("storage", ["float32", "int8"])
def test_similar_labels_have_the_largest_cosines(recipe, storage):
    settings = {"linear": {"storage": storage}} if recipe == "xr_linear" else {}
    model = treetop.fit(recipe, toy.dataset(n=200), settings=settings)
    rank = model.members[0][-1].rank
    W = np.vstack([rank.vector(node).toarray() for node in range(rank.n)])
    lengths = np.linalg.norm(W, axis=1)
    C = (W @ W.T) / np.maximum(np.outer(lengths, lengths), 1e-9)
    for node in (0, 7):
        ids, cosines = rank.similar(rank.vector(node), 6)
        assert ids[0] == node
        np.testing.assert_allclose(cosines, np.sort(C[node])[::-1][:6], atol=1e-5)
    (found,) = model.explain(TEXT, 1)
    column = model.labels.find(found.id)
    others = [c for c in np.argsort(-C[column], kind="stable") if c != column and C[column, c] > 1e-6][:5]
    assert {n.id for n in found.neighbours} == {model.labels.ids[c] for c in others}


@pytest.mark.parametrize("tree", [False, True])
def test_added_and_merged_labels_explain(encoder, tree):
    model = toy_heads.model(encoder, tree=tree, members=2).add_labels({"new": "a cat and birds", "old": "stone"})
    text = "a cat and birds"
    found = next(item for item in model.explain(text, 10) if item.id == "new")
    for way in found.members:
        step = way.steps[-1]
        assert (
            step.names == ["a cat and birds"]
            and step.words
            and abs(step.gap) < 0.01 * max(1, abs(step.margin - step.base))
        )
    assert sum(source.part for source in found.joined.sources) == pytest.approx(found.score, abs=1e-5)
    assert found.neighbours and "new" not in {n.id for n in found.neighbours}
    first, second = model.predict(text, 2)
    merged = model.merge_labels({first.id: second.id}).explain(text, 1)[0]
    assert merged.id == second.id and {way.label for way in merged.members} == {first.id}
    assert sum(source.part for source in merged.joined.sources) == pytest.approx(first.score, abs=1e-5)


def scorer(kind):
    rarity = Rarity.of(200, 0.55, 1.5, 0.3)
    if kind == "logistic":
        knots = np.array([[[0.0, 0.5, 1.0]] * 2, [[-3.0, 0.0, 2.0]] * 2], np.float32)
        return Logistic(knots, np.array([0.8, 0.4, 0.3, 0.1, 0.05, -0.5], np.float32), rarity)
    edges = np.array(
        [[0.2, 0.6], [-0.5, -0.1], [0.2, 0.6], [-0.5, -0.1], [0.5, 0.5], [0.5, 0.5], [1.0, 3.0]], np.float32
    )
    leaf = np.array([[-1.0, 0.2, 0.5, 2.0], [-0.5, 0.1, 0.1, 0.6]], np.float32)
    trees = Trees(-0.3, np.array([[0, 4], [2, 5]], np.int32), np.array([[1, 0], [1, 0]], np.uint8), leaf)
    return Boosted(edges, trees, rarity)


@pytest.mark.parametrize("kind", ["logistic", "boosted"])
def test_a_fusion_says_what_each_source_adds(kind, tmp_path):
    data = toy.dataset(n=200)
    model = treetop.blend([treetop.fit("xr_linear", data), treetop.fit("parabel", data)])
    fusion = Fusion(scorer(kind), ((1, "average"), (3, "average")))
    model = dataclasses.replace(model, fusion=fusion, weights=())
    for item, label in zip(model.explain(TEXT, 4), model.predict(TEXT, 4), strict=True):
        joined = item.joined
        assert item.id == label.id and joined.how == kind and joined.exact == (kind == "logistic")
        assert float(probability(np.float32(joined.total))) * joined.lift == pytest.approx(item.score, rel=1e-4)
        if joined.exact:
            assert joined.base + sum(s.part for s in joined.sources) == pytest.approx(joined.total, abs=1e-5)
        assert [source.members for source in joined.sources] == [[0], [1, 2, 3]]
        assert [way.source for way in item.members] == [0, 1, 1, 1] and len(item.members) == 4
        assert all(way.steps[-1].words for way in item.members)
    lists = fusion.lists(model.member_rankings(model.views([TEXT])), ())
    label = int(lists[0].ids[0])
    told = fusion.told(lists, model.counts, label)
    gone = [lists[0].where(lists[0].ids != label), lists[1]]
    if kind == "boosted" and label in gone[1].ids:  # the difference is that of a source that did not return it
        without = fusion.told(gone, model.counts, label)
        assert told.total - without.total == pytest.approx(told.parts[0], abs=1e-5)
    json.dumps([item.to_dict() for item in model.explain(TEXT, 2)])


def test_a_rank_that_does_not_tell_still_has_scores():
    from treetop.core.types import Ranking

    class Mute:
        kind, n = "rank.mute.1", 40

        def rank(self, view, candidates, join, keep):
            ids = np.arange(40, dtype=np.int32) if candidates.ids is None else candidates.ids
            score = (1 / (1 + ids)).astype(np.float32)
            return Ranking(np.array([0, min(keep, len(ids))]), ids[:keep], score[:keep], score[:keep])

    model = treetop.fit("popular", toy.dataset())
    level = dataclasses.replace(model.members[0][0], rank=Mute())
    (found,) = dataclasses.replace(model, members=[[level]]).explain("a cat", 1)
    step = found.members[0].steps[0]
    assert (step.method, step.margin, step.words, step.own) == ("unknown", None, [], 1.0)


def test_a_text_is_marked_word_by_word():
    words = [Word("black cat", 1.0, ((2, 12),)), Word("cat", -0.5, ((9, 12), (14, 17))), Word("x", 9.0)]
    assert marked("a black, cat. Cat", words) == [
        ("a", 0.0), (" ", 0.0), ("black", 0.5), (", ", 0.0), ("cat", 0.25), (". ", 0.0), ("Cat", -0.25)
    ]  # fmt: skip
    assert marked("", words) == [] and "".join(piece for piece, _ in marked("  ü,1 ", [])) == "  ü,1 "


def test_scripts_without_spaces_are_marked_by_character():
    words = [Word("書館", 2.0, ((1, 3),)), Word("น่", 1.0, ((9, 11),))]
    text = "図書館の Abc。น่า"
    assert marked(text, words) == [
        ("図", 0.0), ("書", 1.0), ("館", 1.0), ("の", 0.0), (" ", 0.0), ("Abc", 0.0), ("。", 0.0),
        ("น่", 1.0), ("า", 0.0),
    ]  # fmt: skip
    mixed = "か\u3099\u0301x๑ Ⱥ図\n\u0e3f"
    assert "".join(piece for piece, _ in marked(mixed, [])) == mixed
