"""A model folder that somebody changed, its manifest written anew: every hash is right, and still it is refused."""

import json
import shutil

import numpy as np
import pytest

import toy
import toy_heads
import treetop
from fuzz.model_mutations import reseal
from treetop.core.arrays import read_arrays, write_arrays
from treetop.core.errors import ModelError, TreetopError

SETTINGS = {
    "popular": {},
    "neighbours": {"k": 5},
    "xr_linear": {"tfidf": {"min_df": 1}, "tree": {"max_leaf": 5, "branching": 2}},
    "extremetext": {"tfidf": {"min_df": 1}, "tree": {"max_leaf": 5}},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home = tmp_path_factory.mktemp("models")
    for recipe, settings in SETTINGS.items():
        treetop.fit(recipe, toy.dataset(), settings=settings, out=home / recipe)
    return home


@pytest.fixture
def model(trained, tmp_path):
    """A copy of a trained model, to be changed and sealed again."""

    def copy(recipe):
        return shutil.copytree(trained / recipe, tmp_path / recipe)

    return copy


def put_json(file, change):
    values = json.loads(file.read_text(encoding="utf-8"))
    change(values)
    file.write_text(json.dumps(values), encoding="utf-8")


def put_array(part, name, change):
    arrays = {key: np.array(array) for key, array in read_arrays(part / "arrays.safetensors").items()}
    arrays[name] = change(arrays[name])
    write_arrays(part / "arrays.safetensors", arrays)


def sealed(folder):
    reseal(folder, json.loads((folder / "manifest.json").read_text(encoding="utf-8")))
    return folder


def refused(folder, match, check="full"):
    with pytest.raises(ModelError, match=match) as caught:
        treetop.load(sealed(folder), check=check)
    assert str(folder) in str(caught.value)


def first(value):
    def change(array):
        array.reshape(-1)[0] = value
        return array

    return change


def levels_of(folder):
    return sorted((folder / "member-00").glob("level-*"))


# --- levels that do not fit -----------------------------------------------------------------------------------------


def test_the_last_level_twice_is_refused(model):
    folder = model("xr_linear")
    last = levels_of(folder)[-1]
    more = last.with_name(f"level-{len(levels_of(folder)):02d}")
    shutil.copytree(last, more)
    put_json(folder / "member-00/part.json", lambda part: part["parts"].update({more.name: "level.1"}))
    refused(folder, r"member 1, level \d+: its shortlist has \d+ parents, but there are 40 nodes above")


def test_chunks_that_are_not_the_nodes_above_are_refused(model):
    folder = model("xr_linear")
    first_level, last = levels_of(folder)[0], levels_of(folder)[-1]
    shutil.rmtree(first_level / "shortlist")
    shutil.copytree(last / "shortlist", first_level / "shortlist")
    refused(folder, r"member 1, level 1: its shortlist names 40 nodes, but it ranks \d+")


def test_a_shortlist_that_names_nodes_beyond_the_rank_is_refused_whatever_nodes_are_kept_by(model):
    folder = model("xr_linear")
    last = levels_of(folder)[-1]
    put_json(last / "part.json", lambda part: part["config"].update(keep_by="own"))
    put_array(last / "shortlist", "children", lambda a: np.arange(len(a) + 9, dtype=a.dtype))
    put_array(last / "shortlist", "indptr", lambda a: np.append(a[:-1], a[-1] + 9))
    refused(folder, "its shortlist names 49 nodes, but it ranks 40")


@pytest.mark.parametrize(("part", "name"), [("rank", "ids"), ("shortlist", "children")])
def test_indices_in_range_that_are_no_permutation_are_refused(model, part, name):
    folder = model("xr_linear")
    put_array(levels_of(folder)[-1] / part, name, lambda a: np.full_like(a, a[0]))
    refused(folder, f"array '{name}' contains an index twice")


def test_a_walk_over_levels_that_do_not_fit_takes_the_checked_way(trained):
    """`Linear.fused` follows chunks without looking at shortlists: it must not be asked where they do not fit."""
    levels = treetop.load(trained / "xr_linear").members[0]
    view = treetop.load(trained / "xr_linear").views(["a cat"])[levels[0].view]
    assert levels[0].rank.walk(levels, view, 3) is not None
    assert levels[0].rank.walk([levels[0], levels[-1]], view, 3) is None


@pytest.mark.parametrize("members", [0, -1])
def test_a_model_without_members_is_refused(model, members):
    folder = model("popular")
    put_json(folder / "part.json", lambda part: part["config"].update(members=members))
    refused(folder, "members, trained on 60 texts")


def test_a_member_without_levels_is_refused(model):
    folder = model("popular")
    put_json(folder / "member-00/part.json", lambda part: part.update(parts={}))
    refused(folder, "member 1: the last level must rank the model's 40 labels")


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value"),
    [("combine", "zzz"), ("combine", 1), ("keep_by", "zzz"), ("beam", 0), ("beam", -1), ("beam", 2**62),
     ("beam", True), ("transform", "zzz"), ("transform", []), ("view", None)],
)  # fmt: skip
def test_a_level_with_another_setting_than_any_training_writes_is_refused(model, setting, value):
    folder = model("extremetext")
    put_json(levels_of(folder)[-1] / "part.json", lambda part: part["config"].update({setting: value}))
    refused(folder, setting)


@pytest.mark.parametrize(("setting", "value"), [("k", 0), ("k", 2**40), ("power", -1.0), ("n", 0), ("n", "40")])
def test_neighbours_with_a_setting_out_of_range_are_refused(model, setting, value):
    folder = model("neighbours")
    put_json(folder / "member-00/level-00/rank/part.json", lambda part: part["config"].update({setting: value}))
    refused(folder, f"setting '{setting}'")


def test_counts_that_no_training_could_have_found_are_refused(model):
    folder = model("popular")
    put_array(folder / "labels", "counts", first(2**62))
    refused(folder, "counts: labels of 0 to 4611686018427387904 training texts, but there are 60")
    put_array(folder / "labels", "counts", first(-1))
    refused(folder, "counts: labels of -1 to")
    put_json(folder / "part.json", lambda part: part["config"].update(n_train=2**62))
    refused(folder, "n_train: 4611686018427387904 is not a number of training texts")


# --- values that are not finite -------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", ["quick", "full"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("recipe", "name"), [("popular", "share"), ("neighbours", "x_val"), ("xr_linear", "bias"), ("xr_linear", "weights")]
)
def test_values_that_are_not_finite_are_refused_when_a_model_is_opened(model, recipe, name, value, check):
    folder = model(recipe)
    put_array(levels_of(folder)[-1] / "rank", name, first(value))
    refused(folder, f"array '{name}' has a value that is NaN or infinite", check)


def test_a_half_precision_weight_that_is_not_finite_is_refused(tmp_path):
    settings = SETTINGS["xr_linear"] | {"linear": {"storage": "float16"}}
    treetop.fit("xr_linear", toy.dataset(), settings=settings, out=tmp_path / "m")
    put_array(levels_of(tmp_path / "m")[-1] / "rank", "weights", first(0x7E00))  # the bits of NaN
    refused(tmp_path / "m", "array 'weights' has a value that is NaN or infinite")


def test_of_an_array_too_large_to_read_when_opening_a_full_check_still_finds_nan(model, monkeypatch):
    monkeypatch.setattr("treetop.core.part_checks.QUICK", 10)
    folder = model("popular")
    put_array(folder / "member-00/level-00/rank", "share", first(np.nan))
    refused(folder, "array 'share' has a value that is NaN or infinite")
    with pytest.raises(ModelError, match="a score is NaN or infinite"):
        treetop.load(folder).predict("a cat")


def test_a_model_with_values_that_are_not_finite_is_not_saved(trained, tmp_path):
    found = treetop.load(trained / "popular")
    found.members[0][0].rank.share = np.full(len(found.members[0][0].rank.share), np.nan, np.float32)
    with pytest.raises(ModelError, match="array 'share' has a value that is NaN or infinite"):
        found.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_finite_weights_whose_margin_overflows_give_no_score_and_no_words(model):
    folder = model("xr_linear")
    for level in levels_of(folder):
        put_array(level / "rank", "weights", lambda a: np.full_like(a, 3e38))
        put_json(level / "part.json", lambda part: part["config"].update(transform="noop", combine="own"))
    found = treetop.load(sealed(folder), check="full")
    for ask in (found.predict, found.explain):
        with pytest.raises(ModelError, match="NaN or infinite"):
            ask("cats and horses and dogs and engines")


@pytest.fixture(scope="module")
def neural(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("neural") / "m"
    toy_heads.model(encoder).save(folder)
    return folder


def test_an_encoder_that_makes_nan_vectors_answers_nothing_and_adds_no_labels(neural, tmp_path):
    folder = shutil.copytree(neural, tmp_path / "m")
    put_array(folder / "features/encoder", "embeddings.LayerNorm.weight", lambda a: np.full_like(a, np.nan))
    sealed(folder)
    with pytest.raises(TreetopError):  # a full check reads every weight
        treetop.load(folder, check="full")
    with pytest.raises(TreetopError, match="NaN or infinite|not finite"):
        treetop.load(folder).add_labels({"new": "about birds"})


def test_a_label_that_is_never_returned_keeps_its_bias_of_minus_infinity(neural, tmp_path):
    assert (read_arrays(neural / "member-00/level-00/rank/arrays.safetensors")["bias"] == -np.inf).any()
    treetop.load(neural, check="full").save(tmp_path / "again")
    folder = shutil.copytree(neural, tmp_path / "m")
    put_array(folder / "member-00/level-00/rank", "bias", first(np.nan))
    refused(folder, "array 'bias' has a value that is NaN or infinite", "quick")


def test_a_view_of_another_form_than_the_level_reads_is_refused(neural, tmp_path):
    folder = shutil.copytree(neural, tmp_path / "m")
    put_json(folder / "member-00/level-00/part.json", lambda part: part["config"].update(view="none"))
    with pytest.raises(ModelError, match="rank.head.1: reads vectors, got csr_matrix"):
        treetop.load(sealed(folder), check="full").predict("a cat")


def test_huge_finite_values_that_no_decomposition_takes_add_no_labels(encoder, tmp_path):
    toy_heads.model(encoder, squeeze=True).save(tmp_path / "m")
    put_array(tmp_path / "m/member-00/level-00/rank", "squeeze", lambda a: np.where(a < 0, -3e38, 3e38).astype("<f4"))
    found = treetop.load(sealed(tmp_path / "m"), check="full")
    with pytest.raises(ModelError, match="labels add: .*too large or not finite") as caught:
        found.add_labels({"new": "about birds"})
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def dual(encoder, tmp_path_factory):
    """A dual encoder with one head."""
    folder = tmp_path_factory.mktemp("dual") / "m"
    settings = {"train": {"epochs": 1.0, "batch_size": 32}, "encoder": {"model": encoder, "max_length": 32}}
    treetop.fit("depsl", toy.dataset(n=40), settings=settings, out=folder)
    return folder


def rename_heads(folder, *names):
    def change(part):
        first = part["config"]["towers"][0]
        part["config"]["towers"] = [{**first, "name": name} for name in names]

    put_json(folder / "features/encoder/part.json", change)


@pytest.mark.parametrize("names", [(), ("duel",), ("search",), ("dual", "dual"), ("dual", "third")], ids=str)
def test_heads_of_an_encoder_with_other_names_than_any_training_writes_are_refused(dual, tmp_path, names):
    folder = shutil.copytree(dual, tmp_path / "m")
    rename_heads(folder, *names)
    refused(folder, r"features.towers.1: its heads are \[.*\]; known are dual and classifier, each at most once")


def test_labels_are_not_added_where_the_view_of_their_texts_is_missing(dual, tmp_path):
    folder = shutil.copytree(dual, tmp_path / "m")
    rename_heads(folder, "classifier")
    found = treetop.load(sealed(folder), check="full")
    with pytest.raises(ModelError, match="labels add: the model has no view 'encoder/dual' of label texts"):
        found.add_labels({"new": "about birds"})
