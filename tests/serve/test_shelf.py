"""Models replaced, rolled back, damaged while they are served."""

import shutil

import pytest

import toy
import treetop
from asked import Asked, refusal
from treetop.serve.metrics import Metrics, create
from treetop.serve.service import Service
from treetop.serve.settings import Settings


@pytest.fixture
def home(plain, tmp_path):
    shutil.copytree(plain, tmp_path / "m")
    return tmp_path / "m"


def replace(folder, n=50):
    treetop.fit("popular", toy.dataset(n=n), out=folder, overwrite=True, calibrate=False)


def ask(api):
    return api.post("/v1/predict", json={"texts": ["cat"]}).json()


def test_reload_and_rollback(home):
    api = Asked(home)
    old = ask(api)
    unchanged = api.post("/v1/reload").json()
    assert unchanged["changed"] is False and unchanged["version"] == old["version"]
    assert "no version before" in refusal(api.post("/v1/rollback"), 409)
    replace(home)
    assert ask(api) == old  # until it is told, or looks by itself
    told = api.post("/v1/reload").json()
    assert told["changed"] and told["previous"] == old["version"] and told["version"] != old["version"]
    new = ask(api)
    assert new["version"] == told["version"] and new["results"] != old["results"]
    assert api.get("/v1/model").json()["previous"] == old["version"]
    assert api.post("/v1/rollback").json()["version"] == old["version"]
    assert ask(api) == old
    assert api.post("/v1/rollback").json()["version"] == new["version"]


def test_a_replaced_folder_is_noticed(home):
    api = Asked(home)
    old = ask(api)["version"]
    api.service.follow()
    assert ask(api)["version"] == old
    replace(home)
    api.service.follow()
    new = ask(api)["version"]
    assert new != old
    api.post("/v1/rollback")
    api.service.follow()  # the folder is as it was: the rollback stays
    assert ask(api)["version"] == old
    replace(home, n=45)
    api.service.follow()
    assert ask(api)["version"] not in (old, new)


def test_a_new_model_is_searched_at_once(home):
    api = Asked(home)
    api.service.warm()
    index = api.service.shelf.served().index()
    api.service.warm()
    assert api.service.shelf.served().index() is index
    replace(home)
    api.service.follow()
    assert api.service.shelf.served().index() is not index


def test_changed_labels_are_another_version(home):
    api = Asked(home)
    old = ask(api)
    first = old["results"][0]["labels"][0]["id"]
    treetop.load(home).retire_labels([first]).save(home)
    api.service.follow()
    new = ask(api)
    assert new["version"] == f"{old['version']}+1"
    assert first not in [label["id"] for label in new["results"][0]["labels"]]
    assert api.get("/v1/labels/item", params={"id": first}).json()["status"] == "retired"


def test_a_failed_reload_keeps_the_old_model_and_shows(home):
    api = Asked(home)
    old = ask(api)
    (home / "manifest.json").write_text("{}")
    said = refusal(api.post("/v1/reload"), 503)
    assert "still answers" in said and old["version"] in said
    assert ask(api) == old
    ready = api.get("/readyz")
    assert ready.status_code == 200 and ready.json()["failures"] == [said]
    assert "treetop_reload_failed 1" in api.get("/metrics").text
    api.service.follow()
    shutil.rmtree(home)
    api.service.follow()
    assert ask(api) == old and "no such model folder" in api.get("/readyz").json()["failures"][0]
    replace(home)
    api.service.follow()
    assert api.get("/readyz").json()["failures"] == [] and ask(api)["version"] != old["version"]


def test_other_workers_follow(home):
    file = create(["m"], 2)
    try:
        settings = Settings((("m", home),), workers=2)
        one, two = (Service.start(settings, Metrics.shared(file, ["m"], 2, slot)) for slot in range(2))
        old = one.shelf.served().version
        assert not two.asked()
        replace(home)
        assert one.reload("m") and two.asked() and two.shelf.served().version == old
        two.follow()
        new = two.shelf.served().version
        assert new == one.shelf.served().version != old and not two.asked()
        two.rollback("m")
        assert one.asked()
        one.follow()
        assert one.shelf.served().version == two.shelf.served().version == old and not one.asked() and not two.asked()
        one.rollback("m")
        two.follow()
        assert two.shelf.served().version == new
        one.reload_all()
        two.follow()
        assert two.shelf.served().version == new and not one.asked()
    finally:
        file.unlink()


def test_a_fast_model_stays_fast_when_it_is_loaded_again(encoder, tmp_path):
    folder = tmp_path / "m"
    settings = {"encoder": {"model": encoder, "max_length": 32}, "train": {"epochs": 1.0, "batch_size": 16}}
    options = {"settings": settings, "out": folder, "calibrate": False}
    treetop.fit("lightxml", toy.dataset(n=40), **options)
    asked = Asked(folder, fast=True)
    for again in (False, True):
        if again:
            treetop.fit("lightxml", toy.dataset(n=60), **options, overwrite=True)
            assert asked.service.shelf.reload()
        (found,) = asked.post("/v1/predict", json={"texts": ["a cat"], "k": 3}).json()["results"]
        got = [label["score"] for label in found["labels"]]
        fast, plain = (
            [label.score for label in treetop.load(folder, fast=f).predict("a cat", k=3)] for f in (True, False)
        )
        assert got == pytest.approx(fast, abs=1e-6) and got != pytest.approx(plain, abs=1e-6)
