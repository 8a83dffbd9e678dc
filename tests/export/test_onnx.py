"""Exported graphs answer as the models do, and what has no ONNX form is refused by name."""

import dataclasses
import json

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import toy
import treetop
from treetop.core.errors import ConfigError, ModelError, WorkError
from treetop.core.graph import Graph
from treetop.core.types import LabelTree
from treetop.export import folder
from treetop.export.folder import FACTS, GRAPH, Exported, export_onnx
from treetop.export.inputs import padded
from treetop.export.walk import children_table
from treetop.kernels.boosting import Trees
from treetop.predict.calibrate import Calibration
from treetop.predict.fuse.boosted import Boosted
from treetop.predict.fuse.fuse import Fusion
from treetop.predict.fuse.logistic import Logistic
from treetop.predict.fuse.rarity import Rarity

WORDS = {"tfidf": {"min_df": 1}}
TREE = {"clusters": "tree", "tree": {"max_leaf": 5}, "beam": 4, **WORDS}
POOL = {"pool": {"size": 24}}
LINEAR = {
    "xr_linear": {}, "parabel": {}, "bonsai": {}, "extremetext": {}, "dismec": {},
    "xr_linear int8": {"linear": {"storage": "int8"}}, "xr_linear log": {"linear": {"transform": "log_sigmoid"}},
}  # fmt: skip
NEURAL = {
    "lightxml flat": {"clusters": "none"}, "lightxml tree": TREE, "cascadexml": WORDS, "renee": {},
    "cascadexml both": {**WORDS, "ranker": "both"}, "unidec": POOL, "depsl": {**POOL, "dual": {"projection_dim": 8}},
    "unidec lists": {**POOL, "search": {"index": "ivf", "nprobe": 99}},
    "x_transformer": {"tree": {"max_leaf": 5}, **WORDS},
    "xr_transformer": {"preliminary_tree": {"max_leaf": 5, "branching": 2, "top_branching": 4}, **WORDS},
}  # fmt: skip
TEXTS = [*toy.dataset(seed=1).texts, "", "zzz", "cat " * 50]
K = 7


def fitted(form, settings, encoder=None, out=None):
    more = {} if encoder is None else {
        "encoder": {"model": encoder, "max_length": 16}, "train": {"epochs": 1.0, "batch_size": 32},
    }  # fmt: skip
    return treetop.fit(form.split()[0], toy.dataset(), settings={**settings, **more}, device="cpu", out=out)


def graph_of(model, place):
    return Exported(place, folder._write_graph(model, place))


def assert_same_answers(model, exported, k=K):
    found, expected = exported.run(TEXTS, k), model.rank(TEXTS, k)
    ids, lengths = expected.padded(k), np.diff(expected.indptr)
    there = np.arange(found["labels"].shape[1]) < lengths[:, None]
    width = found["labels"].shape[1]
    assert np.array_equal(found["labels"] >= 0, there) and np.isneginf(found["scores"][~there]).all()
    np.testing.assert_allclose(found["scores"][there], expected.score, atol=2e-5)
    assert np.mean(found["labels"] == ids[:, :width]) > 0.98  # scores that differ by rounding may change places
    return found


@pytest.mark.parametrize("form", LINEAR)
def test_linear_trees_answer_as_the_model(form, tmp_path):
    model = fitted(form, {**WORDS, **LINEAR[form]})
    for k in (1, K, 100):
        assert_same_answers(model, graph_of(model, tmp_path / GRAPH), k)


@pytest.mark.parametrize("form", NEURAL)
def test_encoders_with_heads_answer_as_the_model(form, encoder, tmp_path):
    model = fitted(form, NEURAL[form], encoder)
    assert_same_answers(model, graph_of(model, tmp_path / GRAPH))


def test_levels_kept_by_their_own_score_and_copied_nodes(tmp_path):
    model = fitted("xr_linear", WORDS)
    levels = [dataclasses.replace(level, keep_by="own", beam=2) for level in model.members[0]]
    model = dataclasses.replace(model, members=[levels])
    assert_same_answers(model, graph_of(model, tmp_path / GRAPH))
    table = children_table(*LabelTree((np.zeros(2, np.int32), np.array([1, 0, 1], np.int32))).children(1))
    assert table.tolist() == [[1, -1], [0, 2]]


def test_all_ways_to_average_members(tmp_path):
    model = fitted("parabel", WORDS)
    for blend in ("average", "rank_average", "softmax_average"):
        blended = dataclasses.replace(model, blend=blend, weights=(1.0, 0.0, 3.0))
        assert_same_answers(blended, graph_of(blended, tmp_path / GRAPH))


def scorers(keep_first):
    rng = np.random.default_rng(0)
    knots = np.sort(rng.normal(size=(2, 2, 6)), axis=2).astype(np.float32)
    knots[0, 0, 2] = knots[0, 0, 3]  # a jump
    rarity = Rarity.of(60, 0.55, 1.5, 0.5, keep_first)
    trees = Trees(
        -0.5, rng.integers(0, 7, (5, 3)).astype(np.int32), rng.integers(0, 3, (5, 3)).astype(np.uint8),
        rng.normal(size=(5, 8)).astype(np.float32),
    )  # fmt: skip
    edges = np.sort(rng.uniform(-1, 2, (7, 3)), axis=1).astype(np.float32)
    logistic = Logistic(knots, np.abs(rng.normal(size=6)).astype(np.float32), rarity)
    return {"logistic": logistic, "boosted": Boosted(edges, trees, rarity)}


@pytest.mark.parametrize(("kind", "keep_first"), [("logistic", False), ("boosted", True)])
def test_learnt_fusions_and_probabilities(kind, keep_first, tmp_path):
    model = fitted("parabel", WORDS)
    fusion = Fusion(scorers(keep_first)[kind], ((2, "average"), (1, "average")))
    knots = np.sort(np.random.default_rng(1).uniform(size=(2, 3, 5)), axis=2).astype(np.float32)
    calibration = Calibration(knots, np.zeros((3, 1), np.float32), 100)
    for one in (model, dataclasses.replace(model, fusion=fusion)):
        known = dataclasses.replace(one, calibration=calibration)
        found = assert_same_answers(known, graph_of(known, tmp_path / GRAPH))
        expected = known.probabilities(known.rank(TEXTS, K))
        np.testing.assert_allclose(found["probabilities"][found["labels"] >= 0], expected, atol=1e-4)


def test_a_folder_says_how_to_use_it(encoder, tmp_path):
    linear, neural = fitted("xr_linear", WORDS, out=tmp_path / "l"), fitted("renee", {}, encoder, tmp_path / "n")
    export_onnx(linear, tmp_path / "linear")
    export_onnx(neural, tmp_path / "neural")
    names = {"model.onnx", "export.json", "labels.jsonl"}
    assert {file.name for file in (tmp_path / "linear").iterdir()} == names | {"terms.jsonl"}
    assert {file.name for file in (tmp_path / "neural").iterdir()} == names | {"tokenizer.json"}
    facts = json.loads((tmp_path / "linear" / FACTS).read_text())
    assert facts["recipe"] == "xr_linear" and facts["labels"] == {"file": "labels.jsonl", "count": toy.N_LABELS}
    terms = [json.loads(line) for line in (tmp_path / "linear/terms.jsonl").read_text().splitlines()]
    assert [term["term"] for term in terms] == linear.features["tfidf"].terms()
    labels = [json.loads(line) for line in (tmp_path / "neural/labels.jsonl").read_text().splitlines()]
    assert [label["id"] for label in labels] == list(neural.labels.ids)
    facts = json.loads((tmp_path / "neural" / FACTS).read_text())
    assert facts["inputs"]["texts"][0]["max_length"] == 16
    with pytest.raises(WorkError, match="exists already. Choose another folder, or replace an export with --overwrite"):
        export_onnx(linear, tmp_path / "linear")
    export_onnx(linear, tmp_path / "linear", overwrite=True)
    (tmp_path / "other").mkdir()
    with pytest.raises(WorkError, match="is not an export, and only exports are replaced"):
        export_onnx(linear, tmp_path / "other", overwrite=True)
    with pytest.raises(WorkError, match="is inside the model folder"):
        export_onnx(linear, tmp_path / "l" / "x")


def test_large_constants_lie_beside_the_graph(tmp_path, monkeypatch):
    monkeypatch.setattr("treetop.core.graph.INLINE", 100)
    model = fitted("xr_linear", WORDS)
    assert_same_answers(model, graph_of(model, tmp_path / GRAPH))
    assert (tmp_path / f"{GRAPH}.data").is_file()


@pytest.mark.parametrize(
    ("form", "settings", "sentence"),
    [
        ("popular", {}, "recipe 'popular' has no ONNX form: rank 'popular' cannot be written as ONNX; those that can"),
        ("neighbours", WORDS, "recipe 'neighbours' has no ONNX form: rank 'neighbours' cannot be written"),
    ],
)
def test_recipes_without_an_onnx_form_are_refused_by_name(form, settings, sentence, tmp_path):
    model = fitted(form, settings, out=tmp_path / "m")
    with pytest.raises(ConfigError, match=sentence):
        export_onnx(model, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_encoders_without_an_onnx_form_are_refused(encoder, tmp_path):
    from toy_encoder import write_encoder

    words = fitted("inceptionxml", TREE, encoder, tmp_path / "words")
    with pytest.raises(ConfigError, match="recipe 'inceptionxml' has no ONNX form: features 'words' cannot be written"):
        export_onnx(words, tmp_path / "x")
    other = write_encoder(tmp_path / "distil", kind="distilbert", dim=32, n_layers=2, n_heads=2, hidden_dim=64)
    with pytest.raises(ConfigError, match="the encoder is of type 'distilbert', and only encoders with BERT's"):
        export_onnx(fitted("renee", {}, str(other), tmp_path / "d"), tmp_path / "x")
    loop = {"epochs": 1.0, "batch_size": 32}
    windows = {"model": encoder, "max_length": 8, "long_texts": "windows"}
    model = treetop.fit("renee", toy.dataset(), settings={"encoder": windows, "train": loop}, device="cpu")
    with pytest.raises(ConfigError, match="pools its encoder over windows of long texts"):
        export_onnx(model.with_golden(toy.dataset().texts), tmp_path / "x")


def test_changed_labels_and_missing_golden_inputs_are_refused(tmp_path):
    model = fitted("xr_linear", WORDS, out=tmp_path / "m")
    with pytest.raises(ConfigError, match="labels of this model were added, retired or merged after training"):
        export_onnx(model.retire_labels(["L03"]), tmp_path / "x")
    with pytest.raises(ConfigError, match="no golden inputs to check a graph by"):
        export_onnx(dataclasses.replace(model, golden=()), tmp_path / "x")


def test_a_graph_that_answers_otherwise_is_not_written(tmp_path):
    model = fitted("xr_linear", WORDS, out=tmp_path / "m")
    row = model.golden[0]
    for changed in ({"scores": [score + 0.01 for score in row["scores"]]}, {"ids": row["ids"][::-1]}):
        other = dataclasses.replace(model, golden=[{**row, **changed}])
        with pytest.raises(ModelError, match="not written, as the graph answers"):
            export_onnx(other, tmp_path / "x")
        assert not (tmp_path / "x").exists()


def test_rows_are_filled_up_and_constants_shared():
    assert padded(np.array([0, 2, 2, 3]), np.array([4, 5, 6])).tolist() == [[4, 5], [0, 0], [6, 0]]
    assert padded(np.array([0, 0]), np.zeros(0)).shape == (1, 1)
    graph = Graph()
    assert graph.number(1.0) == graph.number(1.0) != graph.constant(1, np.int64)
