"""Annif's routes, in Annif's forms and JSON."""

import pytest

from asked import Asked, refusal
from treetop.serve.feedback.store import read_feedback


@pytest.fixture(scope="module")
def api(calibrated, tmp_path_factory):
    return Asked(calibrated, feedback=tmp_path_factory.mktemp("feedback") / "f.sqlite")


def test_projects(api):
    (project,) = api.get("/v1/projects").json()["projects"]
    assert (project["project_id"], project["backend"], project["is_trained"]) == (
        "toy",
        {"backend_id": "xr_linear"},
        True,
    )
    assert api.get("/v1/projects/toy").json() == project
    assert set(api.get("/v1/").json()) == {"title", "version"}
    assert "not served here" in refusal(api.get("/v1/projects/nix"), 404)
    assert "not served here" in refusal(api.post("/v1/projects/nix/suggest", data={"text": "cat"}), 404)


def test_suggest_takes_a_form(api):
    reply = api.post("/v1/projects/toy/suggest", data={"text": "cat birds", "limit": 2, "language": "en"})
    assert reply.headers["treetop-version"]
    results = reply.json()["results"]
    assert len(results) == 2 and set(results[0]) == {"uri", "label", "notation", "score"}
    labels = api.post("/v1/predict", json={"texts": ["cat birds"], "k": 2}).json()["results"][0]["labels"]
    assert [(r["uri"], r["score"]) for r in results] == [(label["id"], label["probability"]) for label in labels]
    high = api.post("/v1/projects/toy/suggest", data={"text": "cat birds", "threshold": results[0]["score"]}).json()
    assert [r["uri"] for r in high["results"]] == [r["uri"] for r in results if r["score"] >= results[0]["score"]]


@pytest.mark.parametrize(
    ("form", "status"),
    [({"limit": "2"}, 422), ({"text": "a", "limit": "many"}, 422), ({"text": "a", "threshold": "nan"}, 422)],
)
def test_wrong_forms(api, form, status):
    refusal(api.post("/v1/projects/toy/suggest", data=form), status)


def test_forms_that_are_none(api):
    for body in (b"text=%ff", b"\xff\xfe", b"no form", b"{}"):
        refusal(api.post("/v1/projects/toy/suggest", content=body), 400)
    refusal(api.post("/v1/projects/toy/suggest", content=b""), 422)
    parts = refusal(api.post("/v1/projects/toy/suggest", files={"text": (None, "cat")}), 400)
    assert "application/x-www-form-urlencoded" in parts


def test_suggest_batch(api):
    body = {"documents": [{"text": "cat birds", "document_id": "7"}, {"text": "dog"}]}
    first, second = api.post("/v1/projects/toy/suggest-batch", params={"limit": 3}, json=body).json()
    assert (first["document_id"], second["document_id"], len(first["results"])) == ("7", None, 3)
    assert api.post("/v1/projects/toy/suggest-batch", json={"documents": []}).json() == []
    many = {"documents": [{"text": "a"}] * 33}
    refusal(api.post("/v1/projects/toy/suggest-batch", json=many), 422)


def test_learn_is_kept_as_feedback(api):
    subjects = [{"uri": "L01", "label": "any"}, {"uri": "L02"}]
    reply = api.post("/v1/projects/toy/learn", json=[{"text": "a new text", "subjects": subjects}])
    assert (reply.status_code, reply.content) == (204, b"")
    entry = read_feedback(api.service.settings.feedback)[-1]
    assert (entry.text, entry.verdict, entry.labels, entry.model) == ("a new text", "set", ("L01", "L02"), "toy")
    assert api.post("/v1/projects/toy/learn", json=[]).status_code == 204
    refusal(api.post("/v1/projects/toy/learn", json=[{"text": "x"}]), 422)
