"""What `treetop.fit` refuses before it trains, and what it takes for done."""

import dataclasses
import shutil

import numpy as np
import pytest
from scipy import sparse

import toy
import treetop
from treetop.core.dataset import LABEL_TEXT, RETIRED
from treetop.core.errors import ConfigError, InputError, ModelError, WorkError
from treetop.core.texts import Texts
from treetop.core.work import open_work
from treetop.training import plan


def with_roles(data):
    return dataclasses.replace(data, roles=np.full(len(data), LABEL_TEXT, np.uint8))


def with_targets_of_nothing(data):
    return dataclasses.replace(data, Y=data.Y * 0.0)


def with_retired_labels(data):
    return dataclasses.replace(data, labels=dataclasses.replace(data.labels, status=np.full(data.n_labels, RETIRED)))


def test_a_preset_may_follow_the_recipe_as_in_tables_of_advice():
    assert plan("unidec:cpu").settings == plan("unidec", preset="cpu").settings != plan("unidec").settings
    assert plan("unidec:cpu").recipe == "unidec" and plan("unidec:cpu", preset="cpu").recipe == "unidec"
    with pytest.raises(ConfigError, match=r"^preset: 'paper', but unidec:cpu names one already\. Give one of them\.$"):
        plan("unidec:cpu", preset="paper")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_roles, r"^toy: 0 texts with 0 labels and 60 rows of other roles\. Training needs at least one text"),
        (with_targets_of_nothing, r"^toy: 60 texts with 0 labels\. Training needs at least one text with one label"),
        (with_retired_labels, r"^toy: all 40 labels are retired, so none could be predicted\. Make at least"),
    ],
)
@pytest.mark.parametrize("recipe", ["popular", "xr_linear"])
def test_data_that_teach_nothing_are_refused(recipe, change, message):
    with pytest.raises(InputError, match=message):
        treetop.fit(recipe, change(toy.dataset()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, r"^threads: 0 is out of range\. Allowed: whole numbers from 1"),
        ({"threads": "2"}, r"^threads: '2' is out of range"),
        ({"device": None}, r"^device: unknown value 'None'"),
        ({"budget": 8}, r"^budget: expected text such as 'memory=8GB,time=10min', got 8"),
        ({"preset": None}, r"^preset: expected a name, got None"),
        ({"recipe": None}, r"^recipe: expected a name, got None"),
        ({"settings": "k=3"}, r"^settings: cannot read 'k=3'\. Give a dict, or a list of strings"),
        ({"settings": [("k", 3)]}, r"^settings: cannot read \('k', 3\)"),
        ({"settings": 3}, r"^settings: cannot read 3"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        treetop.fit(options.pop("recipe", "popular"), toy.dataset(), **options)


def test_opening_and_judging_refuse_what_they_do_not_know(tmp_path):
    model = treetop.fit("popular", toy.dataset(), out=tmp_path / "m")
    with pytest.raises(ConfigError, match=r"check: unknown value 'ful'\. Choose one of 'quick', 'full'"):
        treetop.load(tmp_path / "m", check="ful")
    with pytest.raises(InputError, match="evaluate: expected a Dataset, got list"):
        model.evaluate(["a text"])
    with pytest.raises(InputError, match="resamples: -1 is out of range"):
        model.evaluate(toy.dataset(1), resamples=-1)
    for texts in ({"text": "a cat"}, {"a cat"}, b"a cat", None):
        with pytest.raises(InputError, match="texts: expected a string or a list of strings, got"):
            model.predict(texts)


def test_the_card_says_that_a_budget_shrank_the_model(tmp_path):
    settings = {"tfidf": {"min_df": 1}}
    treetop.fit("xr_linear", toy.dataset(), settings=settings, out=tmp_path / "free")
    treetop.fit("xr_linear", toy.dataset(), settings=settings, budget="model=1MB", out=tmp_path / "small")
    assert "budget" not in treetop.load(tmp_path / "free").card.data
    card = (tmp_path / "small/README.md").read_text(encoding="utf-8")
    assert "- budget: model 1.0 MB, so weights may be fewer and narrower than the settings say" in card


def test_views_take_plain_strings():
    model = treetop.fit("neighbours", toy.dataset(), settings={"tfidf": {"min_df": 1}})
    assert (model.views(["a cat", "a dog"])["tfidf"] != model.views(Texts.of(["a cat", "a dog"]), {})["tfidf"]).nnz == 0


@pytest.mark.parametrize("silent", [False, True], ids=["texts too", "no texts"])
@pytest.mark.parametrize("recipe", ["xr_linear", "neighbours"])
def test_models_of_ready_made_features_are_saved_verified_and_refuse_bare_texts(tmp_path, recipe, silent):
    data = toy.dataset()
    X = sparse.random(len(data), 50, 0.2, format="csr", dtype=np.float32, random_state=0)
    data = dataclasses.replace(data, features={"given": X}, texts=Texts.of([""] * len(data)) if silent else data.texts)
    treetop.fit(recipe, data, out=tmp_path / "m")
    model = treetop.load(tmp_path / "m", check="full")
    model.check_golden()
    assert len(model.rank_dataset(data, 3)) == len(data) and not model.answers_texts
    for ask in (model.predict, model.explain, lambda text: model.rank_dataset(toy.dataset())):
        with pytest.raises(
            InputError, match=r"trained on precomputed features \('given'\), and texts have none\. Give"
        ):
            ask("a cat")
    assert treetop.fit("popular", data).golden or silent  # texts are enough


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_and_weights_that_are_no_numbers_are_refused(value):
    data = toy.dataset()
    odd = data.Y.copy()
    odd.data = np.where(np.arange(odd.nnz) == 7, np.float32(value), odd.data)
    with pytest.raises(InputError, match="toy: features 'given' have a value that is NaN or infinite"):
        dataclasses.replace(data, features={"given": odd})
    with pytest.raises(InputError, match="toy: relevance weights must be finite numbers, 0 or more"):
        dataclasses.replace(data, relevance=odd)
    with pytest.raises(InputError, match="relevance weights"):
        dataclasses.replace(data, relevance=-data.Y)


@pytest.mark.parametrize("values", [[3e38, 0.0, 0.0], [2e19, 2e19, 0.0], [1e300, 0.0, 0.0]])
def test_ready_made_features_whose_squares_overflow_are_refused(values):
    data = toy.dataset(n=3)
    X = sparse.csr_matrix(np.diag([1.0, 1.0, 1.0]) + np.array([[0.0] * 3, values, [0.0] * 3]))
    with pytest.raises(InputError, match="toy: features 'given' are too large: the squares in row 1 add up to more"):
        dataclasses.replace(data, features={"given": X})


def test_large_ready_made_features_whose_squares_do_not_overflow_are_taken():
    data = toy.dataset(n=3)
    X = sparse.csr_matrix(np.diag(np.full(3, 1e19, np.float32)))
    assert dataclasses.replace(data, features={"given": X}).features["given"] is X


def test_an_interrupted_training_says_how_to_go_on(tmp_path, monkeypatch, caplog):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(treetop.training, "_train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        treetop.fit("popular", toy.dataset(), out=tmp_path / "m")
    assert "m.work: finished stages are kept here; continue with the same command and --resume" in caplog.text
    monkeypatch.undo()
    treetop.fit("popular", toy.dataset(), out=tmp_path / "m", resume=True)
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize(
    ("recipe", "setting", "message"),
    [
        (
            "xr_linear",
            "tree.top_branching=-1",
            r"^tree\.top_branching: -1 is out of range\. Allowed: 1 or more\.",
        ),  # grew without end
        (
            "bonsai",
            "tree.max_depth=1000000000000",
            r"^tree\.max_depth: 1000000000000 is out of range\. Allowed: 1 to 100\.",
        ),
        (
            "xr_linear",
            "linear.last_transform=hinge5",
            r"^linear\.last_transform: unknown value 'hinge5'\. Choose one of .* Did you mean",
        ),
    ],
)
def test_settings_no_training_could_end_with_are_refused(recipe, setting, message):
    with pytest.raises(ConfigError, match=message):
        treetop.training.plan(recipe, settings=[setting])


def job(out, data=None, **changes):
    options = {"settings": {"tfidf": {"min_df": 1}}, "budget": "model=1MB", "resume": True, **changes}
    return treetop.fit(options.pop("recipe", "xr_linear"), data or toy.dataset(), out=out, **options)


def test_resuming_a_finished_job_is_content_with_its_model(tmp_path, caplog):
    job(tmp_path / "m")
    before = {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in tmp_path.rglob("*") if file.is_file()}
    open_work(tmp_path / "n", {}).rename(tmp_path / "m.work")  # of another job
    with caplog.at_level("INFO", "treetop"):
        model = job(tmp_path / "m", device="cpu", threads=1)
    assert model.predict("a cat") and f"{tmp_path / 'm'}: the model of this job exists already" in caplog.text
    shutil.rmtree(tmp_path / "m.work")
    assert {f: (f.stat().st_mtime_ns, f.read_bytes()) for f in tmp_path.rglob("*") if f.is_file()} == before


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"data": toy.dataset(1)}, "data"),
        ({"settings": {"tfidf": {"min_df": 2}}}, "settings"),
        ({"recipe": "bonsai"}, "recipe"),
        ({"seed": 1}, "seed"),
        ({"budget": "model=1001KB"}, "budget"),  # the card rounds it to the same
        ({"budget": ""}, "budget"),
    ],
)
def test_resuming_does_not_take_the_model_of_another_job(tmp_path, changes, what):
    job(tmp_path / "m")
    before = (tmp_path / "m/manifest.json").read_bytes()
    with pytest.raises(WorkError, match=rf"/m: exists already and is the model of a job with other .*\b{what}\b.*over"):
        job(tmp_path / "m", **changes)
    assert (tmp_path / "m/manifest.json").read_bytes() == before and [f.name for f in tmp_path.iterdir()] == ["m"]
    job(tmp_path / "m", **changes, overwrite=True)
    assert job(tmp_path / "m", **changes)


def test_resuming_refuses_a_damaged_model_and_files_that_are_no_model(tmp_path):
    job(tmp_path / "m")
    (tmp_path / "m/golden.jsonl").unlink()
    with pytest.raises(ModelError, match="golden.jsonl: missing"):
        job(tmp_path / "m")
    (tmp_path / "m/manifest.json").unlink()
    with pytest.raises(WorkError, match="m: exists already"):
        job(tmp_path / "m")


def test_stages_left_by_a_kill_after_the_model_was_saved_are_removed(tmp_path, monkeypatch):
    def killed(*_, **__):
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr("treetop.training.remove_work", killed)
        with pytest.raises(SystemExit):
            job(tmp_path / "m")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["m", "m.work"]
    job(tmp_path / "m")
    assert [f.name for f in tmp_path.iterdir()] == ["m"]
