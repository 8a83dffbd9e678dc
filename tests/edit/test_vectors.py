"""Labels added to a trained model by their texts."""

import dataclasses
import functools
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
import toy_heads
import treetop
from toy_edits import TEXTS, hashes, same, scores
from treetop.core.dataset import LabelSet
from treetop.core.errors import ConfigError, InputError, LabelError, TreetopError

TINY = {"tfidf": {"min_df": 1}}
HELD_OUT = [2, 5, 8, 11, 14]
SHAPES = [{}, {"tree": True}, {"members": 2}, {"tree": True, "squeeze": True}, {"tree": True, "members": 2}]


@functools.cache
def new_labels(columns=tuple(HELD_OUT)):
    labels = toy.dataset().labels
    return {labels.ids[c]: {"name": labels.names[c], "text": labels.texts[c]} for c in columns}


@pytest.fixture(scope="module")
def vectors(tmp_path_factory, encoder):
    """A saved model with labels added, renamed with a new vector, merged and retired."""
    folder = tmp_path_factory.mktemp("edited") / "m"
    toy_heads.model(encoder, toy_heads.without(toy.dataset(n=200), HELD_OUT), tree=True).save(folder)
    model = treetop.load(folder).add_labels(new_labels())
    model = model.rename_labels({"L05": {"text": "about bread and salts"}}, re_encode=True)
    model.merge_labels({"L00": "L08"}).retire_labels(["L11"]).save(folder)
    return folder


@pytest.mark.parametrize("seed", range(20))
def test_damage_to_changes_is_caught(vectors, tmp_path, seed):
    folder = tmp_path / "m"
    shutil.copytree(vectors, folder)
    random = np.random.default_rng(seed)
    files = sorted(p for p in (folder / "edits").rglob("*") if p.is_file() and p.stat().st_size)
    file = files[random.integers(len(files))]
    raw = bytearray(file.read_bytes())
    if random.random() < 0.6:
        raw[random.integers(len(raw))] ^= 1 << random.integers(8)
    else:
        raw = raw[: random.integers(len(raw))]
    file.write_bytes(raw)
    with pytest.raises(TreetopError) as caught:
        treetop.load(folder, check="full")
    assert "\n" not in str(caught.value)
    try:
        treetop.load(folder).predict(["cat and horses", ""], k=5)
    except TreetopError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_added_labels_are_found_and_old_ones_keep_their_bits(encoder, shape, tmp_path):
    data = toy.dataset(n=200)
    model = toy_heads.model(encoder, toy_heads.without(data, HELD_OUT), **shape)
    model = model.save(tmp_path / "m")
    before, files = scores(model), hashes(tmp_path / "m")
    model = model.add_labels(new_labels())
    after = scores(model)
    assert {pair: score for pair, score in after.items() if pair[1] not in new_labels()} == before
    assert [model.labels.ids[c] for c in range(35, 40)] == list(new_labels()) and model.counts[35:].sum() == 0
    for k in (1, 3, 10):
        assert same(model.rank(TEXTS, 60).top(k), model.rank(TEXTS, k))
    test = toy.dataset(seed=1, n=200)
    aligned = test.align(model.labels)
    assert aligned.n_labels == 40 and aligned.labels.ids == model.labels.ids
    assert recall(model, aligned, range(35, 40)) > 2 * 5 / 40
    model.save(tmp_path / "m")
    assert files.items() <= hashes(tmp_path / "m").items()
    loaded = treetop.load(tmp_path / "m", check="full")
    loaded.check_golden()
    assert same(loaded.rank(TEXTS, 10), model.rank(TEXTS, 10)) and loaded.labels == model.labels
    whole = model.evaluate(test, resamples=0)
    assert (
        whole["R@10"]
        > toy_heads.model(encoder, toy_heads.without(data, HELD_OUT), **shape).evaluate(test, resamples=0)["R@10"]
    )


def recall(model, data, columns, k=5):
    """Share of the (document, label) pairs with these labels that are among the best k."""
    top, hit, total = model.rank_dataset(data, k).padded(k), 0, 0
    for row in range(len(data)):
        true = set(data.Y[row].indices.tolist()) & set(columns)
        hit, total = hit + len(true & set(top[row].tolist())), total + len(true)
    return hit / total


def test_later_additions_leave_earlier_ones_alone(encoder, tmp_path):
    for shape in SHAPES:
        model = toy_heads.model(encoder, toy_heads.without(toy.dataset(n=200), HELD_OUT), **shape)
        model = model.add_labels(new_labels(tuple(HELD_OUT[:2])))
        before = scores(model)
        maps = [part for part in model.edits.log[0].part.parts if part.startswith("map")]
        model = model.add_labels(new_labels(tuple(HELD_OUT[2:])))
        assert len(maps) == len(model.members)
        assert not any(part.startswith("map") for part in model.edits.log[1].part.parts)
        assert before.items() <= scores(model).items()
        model = model.add_labels({f"more {i}": f"{toy.WORDS[i % 18]} {i}" for i in range(600)})
        assert before.items() <= scores(model, 700).items()


def test_a_new_label_competes_with_rare_trained_ones(encoder):
    """Texts held out of training lie where trained labels lie: vectors as long, margins at the mean text as low."""
    data = toy.dataset(n=200)
    whole, less = (toy_heads.model(encoder, d) for d in (data, toy_heads.without(data, HELD_OUT)))
    less = less.add_labels(new_labels())
    made, true = less.edits.overlay.extra[0].rank, whole.members[0][-1].rank
    lengths = np.linalg.norm(made.weight[:5], axis=1), np.linalg.norm(true.weight, axis=1)
    assert 0.75 < np.median(lengths[0]) / np.median(lengths[1]) < 1.25
    view = whole.views(data.texts, {})[whole.members[0][-1].view]
    centre = view.mean(0)
    ours, theirs = (head.weight[rows] @ centre + head.bias[rows] for head, rows in ((made, range(5)), (true, HELD_OUT)))
    assert abs(np.median(ours) - np.median(theirs)) < 2
    ranking = less.rank(toy.dataset(seed=5, n=200).texts, 5)
    assert 0.4 * 5 / 40 < (ranking.ids >= 35).mean() < 2.5 * 5 / 40  # their share of the answers
    cosines = [made.weight[i] @ true.weight[c] / lengths[0][i] / lengths[1][c] for i, c in enumerate(HELD_OUT)]
    assert min(cosines) > 0.8


def test_re_encoding_renews_vectors_of_added_labels_only(encoder, tmp_path):
    model = toy_heads.model(encoder, toy_heads.without(toy.dataset(n=200), HELD_OUT), tree=True)
    model = model.add_labels(new_labels())
    before = scores(model)
    model = model.rename_labels({"L05": {"text": "about bread and salts"}})
    assert scores(model) == before
    model = model.rename_labels({"L05": {"name": "bread", "text": "about bread and salts"}}, re_encode=True)
    after = scores(model)
    assert {p: s for p, s in after.items() if p[1] != "L05"} == {p: s for p, s in before.items() if p[1] != "L05"}
    assert {p: s for p, s in after.items() if p[1] == "L05"} != {p: s for p, s in before.items() if p[1] == "L05"}
    other = toy_heads.model(encoder, toy_heads.without(toy.dataset(n=200), HELD_OUT), tree=True)
    texts = new_labels() | {"L05": {"name": "bread", "text": "about bread and salts"}}
    again = scores(other.add_labels(texts))
    assert again.keys() == after.keys() and np.allclose([again[p] for p in after], list(after.values()), atol=1e-5)
    assert scores(model.undo_labels()) == before


def test_adding_can_be_taken_back_but_ids_are_never_free_again(encoder, tmp_path):
    model = toy_heads.model(encoder, toy_heads.without(toy.dataset(n=200), HELD_OUT))
    before = scores(model)
    model = model.add_labels(new_labels())
    added = scores(model)
    model = model.undo_labels()
    assert scores(model) == before and len(model.labels) == 40
    with pytest.raises(LabelError, match="label 'L02': was retired, and ids are never reused"):
        model.add_labels({"L02": "again"})
    model = model.restore_labels(list(new_labels()))
    assert scores(model) == added
    model = model.merge_labels({"L02": "L00"})  # an added one into a trained one, and the other way round
    model = model.merge_labels({"L01": "L05"})
    assert {id_ for _, id_ in scores(model)} & {"L01", "L02"} == set()


@pytest.fixture(scope="module")
def retired(encoder):
    """A model with one label retired."""
    return toy_heads.model(encoder, toy.dataset(n=60)).retire_labels(["L01"])


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ({"L00": "a text"}, LabelError, "label 'L00': is known already"),
        ({"L01": "a text"}, LabelError, "label 'L01': was retired"),
        ({"new": ""}, InputError, "label 'new': its text is empty"),
        ({"new": " \n"}, InputError, "label 'new': its text is empty"),
        ({"new": None}, InputError, "label 'new': None is not a name or text"),
        ({"new": {}}, InputError, "label 'new': no text"),
        ({"new": "\x00\u200b \x01"}, InputError, "label 'new': no text"),
        ({"new": {"txt": "a"}}, InputError, "is not a name or text"),
        ({"": "a text"}, LabelError, "an id must not be empty"),
        ({3: "a text"}, InputError, "expected ids or names as strings"),
        ({}, InputError, "none given"),
        (["new"], InputError, "expected a mapping or a LabelSet"),
        ({"fine": "a cat", "L00": "a text"}, LabelError, "label 'L00': is known already"),
    ],
)
def test_bad_new_labels_are_one_sentence_and_change_nothing(retired, labels, error, message):
    model, before = retired, scores(retired)
    with pytest.raises(error, match=message) as caught:
        model.add_labels(labels)
    assert "\n" not in str(caught.value) and len(model.edits.log) == 1 and scores(model) == before


def test_texts_that_tell_nothing_are_refused(encoder):
    data = toy.dataset(n=200)
    labels = LabelSet.of([f"L{i:02d}" for i in range(40)], [f"{i * 7919 % 1000}" for i in range(40)])
    model = toy_heads.model(encoder, data)
    blind = dataclasses.replace(model, labels=labels)
    with pytest.raises(ConfigError, match="label texts of this model are not informative enough"):
        blind.add_labels({"new": "a cat"})


def test_the_estimator_keeps_working(encoder):
    pytest.importorskip("sklearn")
    from treetop.sklearn import XMCClassifier

    texts, names = ["a cat", "a dog", "a cat and a dog"], [["cat"], ["dog"], ["cat", "dog"]]
    made = XMCClassifier("neighbours", k=2, settings=TINY).fit(texts, names)
    made.model_ = made.model_.retire_labels(["dog"])
    assert made.predict_topk(["a dog"])[0] == [["cat"]] and made.predict(texts).shape == (3, 2)
    made.model_ = toy_heads.model(encoder, toy_heads.without(toy.dataset(n=200), HELD_OUT)).add_labels(new_labels())
    made.k = 40
    assert made.predict(list(TEXTS)).shape == (60, 40) == made.decision_function(list(TEXTS)).shape
    assert list(made.classes_[35:]) == list(new_labels())
    assert 0 <= made.score(list(TEXTS), [["L05"]] * 60) <= 1


# --- trained recipes ---

TRAIN = {
    "encoder_optimizer": {"lr": 0.0002}, "head_optimizer": {"lr": 0.02},
    "train": {"epochs": 8.0, "batch_size": 16}, "min_steps_per_epoch": 1,
}  # fmt: skip


OWN = ("horses and bread", "cat", "river glass")
POOL = {"pool": {"size": 24, "mine_from": 2, "mine_every": 4}}
TWO_HEADS = {**POOL, "label_optimizer": {"lr": 0.02}}


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("lightxml", {"init": "text"}),
        (
            "lightxml",
            {
                "beam": 4,
                "projection_dim": 16,
                "clusters": "tree",
                "tree": {"max_leaf": 6},
                "frozen": True,
                "init": "text",
            },
        ),
        ("cascadexml", {"resolutions": [8], "layers": [[1], [2]], "beam": [4], "init": "text"}),
        ("renee", {"init": "text"}),
        ("depsl", POOL),
        ("unidec", TWO_HEADS),
        ("unidec", {**TWO_HEADS, "search": {"index": "ivf", "nprobe": 99}}),
        pytest.param("ngame", {**TWO_HEADS, "second_train": {"epochs": 6.0}}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_trained_recipes_take_labels(encoder, recipe, changes, tmp_path):
    data = toy_heads.without(toy.dataset(n=200), HELD_OUT)
    chosen = {**TRAIN, **changes, "encoder": {"model": encoder, "max_length": 32}}
    model = treetop.fit(recipe, data, settings=chosen, out=tmp_path / "m")
    before = scores(model)
    model = treetop.load(tmp_path / "m").add_labels(new_labels())
    assert {p: s for p, s in scores(model).items() if p[1] not in new_labels()} == before
    model.save(tmp_path / "m")
    assert scores(treetop.load(tmp_path / "m", check="full")) == scores(model)
    test = toy.dataset(seed=1, n=200).align(model.labels)
    assert recall(model, test, range(35, 40)) > 1.3 * 5 / 40


@pytest.mark.parametrize(("n_labels", "texts"), [(2, OWN), (12, OWN), (38, ("cat", "river glass"))], ids=str)
def test_a_new_label_is_the_best_answer_to_its_own_text(encoder, n_labels, texts):
    """A model of a handful of labels knows them by heart; a new one must not drown in that."""
    data = toy.dataset(n=60)
    data = toy_heads.without(data, list(range(n_labels, data.n_labels)))
    chosen = {**TRAIN, **TWO_HEADS, "train": {"epochs": 20.0, "batch_size": 16}}
    model = treetop.fit("unidec", data, settings={**chosen, "encoder": {"model": encoder, "max_length": 32}})
    assert (model.members[0][-1].rank.new is None) == (n_labels < 20)
    trained = model
    for text in texts:
        model = trained.add_labels({text: text})
        found = model.predict(text, k=1)[0]
        assert found.id == text and found.score > 0.05
        near = {label.id: label.score for label in model.predict("a " + text, k=40)}
        assert near[text] > 0.005


def test_cascadexml_with_a_linear_last_level_says_so(encoder):
    data = toy.dataset(n=100)
    chosen = {
        **TRAIN,
        "resolutions": [8],
        "layers": [[1], [2]],
        "beam": [4],
        "ranker": "linear",
        "tfidf": {"min_df": 1},
    }
    chosen = {**chosen, "encoder": {"model": encoder, "max_length": 32}, "train": {"epochs": 1.0, "batch_size": 16}}
    model = treetop.fit("cascadexml", data, settings=chosen)
    with pytest.raises(ConfigError, match="'cascadexml' learns labels from training texts only \\(rank.linear.1\\)"):
        model.add_labels({"new": "a cat"})
    assert model.retire_labels(["L00"]).labels.status[0] == 1
