"""The routes of docs/server.md, asked as a client asks them."""

import json

import pytest

import toy
import treetop
from asked import Asked, refusal

TEXT = "cat birds stone and wheels"
QUICK = {"tfidf": {"min_df": 1}}


@pytest.fixture(scope="module")
def api(calibrated, plain, tmp_path_factory):
    return Asked(calibrated, plain, feedback=tmp_path_factory.mktemp("feedback") / "f.sqlite")


def test_predict_is_what_the_model_says(api, calibrated):
    model = treetop.load(calibrated)
    answer = api.post("/v1/predict", json={"texts": [TEXT, "qqqq"], "k": 3}).json()
    assert answer["model"] == "toy" and answer["version"] == model.seal[:12]
    first, second = answer["results"]
    assert [tuple(label.values()) for label in first["labels"]] == [tuple(row) for row in model.predict(TEXT, k=3)]
    assert (first["unknown"], first["known_words"]) == (False, pytest.approx(4 / 5))
    assert (second["unknown"], second["known_words"]) == (True, 0.0)


def test_thresholds_leave_out_labels_and_unknown_texts(api, calibrated):
    model = treetop.load(calibrated)
    (found, nothing) = api.post("/v1/predict", json={"texts": [TEXT, "qqqq"], "threshold": 0.3}).json()["results"]
    assert [label["id"] for label in found["labels"]] == [row.id for row in model.predict(TEXT, threshold=0.3)]
    assert nothing["labels"] == []
    lowest = model.calibration.threshold_for_precision(0.6)
    precise = api.post("/v1/predict", json={"texts": [TEXT], "precision": 0.6}).json()["results"][0]["labels"]
    assert all(label["probability"] >= lowest for label in precise)


def test_many_labels(api, calibrated):
    texts = [f"{TEXT} {n}" for n in range(32)]
    answer = api.post("/v1/predict", json={"texts": texts, "k": 1000}).json()
    rows = treetop.load(calibrated).predict(texts, k=1000)
    assert [[label["id"] for label in r["labels"]] for r in answer["results"]] == [[r.id for r in row] for row in rows]


def test_precision_and_threshold_on_a_model_without_probabilities(api):
    for key in ("threshold", "precision"):
        said = refusal(api.post("/v1/predict", json={"texts": ["cat"], "model": "plain", key: 0.5}), 422)
        assert "not calibrated" in said and "treetop calibrate" in said
    both = {"texts": ["cat"], "threshold": 0.5, "precision": 0.5}
    assert "Give one of them" in refusal(api.post("/v1/predict", json=both), 422)


def test_another_model_by_name(api):
    assert api.post("/v1/predict", json={"texts": ["cat"], "model": "plain"}).json()["model"] == "plain"
    said = refusal(api.post("/v1/predict", json={"texts": ["cat"], "model": "nix"}), 404)
    assert said == "model 'nix': not served here. Choose one of 'toy', 'plain'."


def test_models(api):
    listed = api.get("/v1/models").json()
    toy, plain = listed["models"]
    assert (listed["model"], toy["id"], toy["recipe"], toy["labels"]) == ("toy", "toy", "xr_linear", 40)
    assert toy["calibrated"] and toy["has_tree"] and toy["accepts_feedback"] and not toy["has_report"]
    assert not plain["calibrated"] and not plain["has_tree"] and not plain["has_texts"]


def test_one_model(api):
    answer = api.get("/v1/model").json()
    assert answer["card"].startswith("---") and answer["settings"]["tfidf"]["min_df"] == 1
    assert [row["precision"] for row in answer["calibration"]["thresholds"]] == [0.5, 0.7, 0.9]
    assert answer["previous"] is None and answer["metrics"] == {}
    assert api.get("/v1/model", params={"model": "plain"}).json()["calibration"] is None


def test_explain(api, calibrated):
    answer = api.post("/v1/explain", json={"text": TEXT, "k": 2}).json()
    assert answer["explanations"] == json.loads(
        json.dumps([e.to_dict() for e in treetop.load(calibrated).explain(TEXT, 2)])
    )
    last = treetop.load(calibrated).predict(TEXT, k=5)[-1].id
    named = api.post("/v1/explain", json={"text": TEXT, "labels": [last]}).json()["explanations"]
    assert [explanation["id"] for explanation in named] == [last]
    assert "unknown id or name" in refusal(api.post("/v1/explain", json={"text": TEXT, "labels": ["nix"]}), 404)


def test_training_texts_are_private(plain):
    body = {"text": "cat dogs", "k": 1}
    assert Asked(plain).post("/v1/explain", json=body).json()["explanations"][0]["texts"] is None
    shown = Asked(plain, show_texts=True)
    assert shown.post("/v1/explain", json=body).json()["explanations"][0]["texts"]
    assert shown.get("/v1/models").json()["models"][0]["has_texts"]


def test_training_texts_that_a_model_keeps_are_shown_only_where_the_server_is_told_to(tmp_path):
    data = toy.dataset(n=60)
    treetop.fit("xr_linear", data, settings=QUICK, out=tmp_path / "m", calibrate=False, keep_texts=True)
    body, kept = {"text": data.texts[0], "k": 1}, Asked(tmp_path / "m")
    answer = kept.post("/v1/explain", json=body).json()["explanations"][0]
    assert answer["texts"] is None and not kept.get("/v1/models").json()["models"][0]["has_texts"]
    shown = Asked(tmp_path / "m", show_texts=True)
    texts = shown.post("/v1/explain", json=body).json()["explanations"][0]["texts"]
    assert data.texts[0] in [each["text"] for each in texts]
    assert shown.get("/v1/models").json()["models"][0]["has_texts"]


def test_labels(api):
    answer = api.get("/v1/labels", params={"q": "birds", "limit": 2}).json()
    assert answer["total"] >= 2 and all("birds" in label["name"] for label in answer["labels"])
    label = answer["labels"][0]
    assert set(label) == {"id", "name", "text", "count", "status"} and label["status"] == "active"
    meant = api.get("/v1/labels", params={"q": TEXT, "by": "meaning", "limit": 3, "offset": 1}).json()
    ranked = [row["id"] for row in api.post("/v1/predict", json={"texts": [TEXT]}).json()["results"][0]["labels"]]
    assert [row["id"] for row in meant["labels"]] == ranked[1:4]


def test_one_label_and_its_way_through_the_tree(api):
    label = api.get("/v1/labels", params={"q": "cat"}).json()["labels"][0]
    answer = api.get("/v1/labels/item", params={"id": label["id"]}).json()
    assert answer["name"] == label["name"] and answer["similar"]
    node = answer["path"][-1]["node"] if answer["path"] else ""
    below = api.get("/v1/tree", params={"node": node, "limit": 1000}).json()
    assert label["id"] in [child.get("label") for child in below["children"]]
    assert (answer["alt"], answer["broader"], answer["related"]) == ([], [], [])
    refusal(api.get("/v1/labels/item", params={"id": "nix"}), 404)


def test_tree_pages(api):
    whole = api.get("/v1/tree").json()
    assert (whole["node"]["id"], whole["node"]["labels"]) == ("", 40)
    second = api.get("/v1/tree", params={"offset": 1, "limit": 1}).json()
    assert second["children"] == whole["children"][1:2] and second["total"] == whole["total"]
    flat = api.get("/v1/tree", params={"model": "plain", "limit": 5}).json()
    assert flat["total"] == 40 and all(child["leaf"] for child in flat["children"])


@pytest.mark.parametrize("node", ["0-99999", "9-0", "x", "-1", "0-0-0", "../..", "٣-٣"])
def test_unknown_nodes(api, node):
    assert "not in the tree" in refusal(api.get("/v1/tree", params={"node": node}), 404)


def test_feedback(api):
    label = api.get("/v1/labels").json()["labels"][0]
    before = api.get("/v1/feedback/stats").json()
    reply = api.post("/v1/feedback", json={"text": "t", "label": label["id"], "verdict": "accept"})
    assert reply.status_code == 201 and reply.json()["id"] > 0
    assert api.post("/v1/feedback", json={"text": "t", "labels": [label["id"]]}).status_code == 201
    after = api.get("/v1/feedback/stats").json()
    assert (after["accept"] - before["accept"], after["sets"] - before["sets"]) == (1, 1)
    for body in ({"text": "t"}, {"text": "t", "label": label["id"]}, {"text": "t", "labels": [], "verdict": "add"}):
        assert "either label and verdict, or labels" in refusal(api.post("/v1/feedback", json=body), 422)
    refusal(api.post("/v1/feedback", json={"text": "t", "label": "nix", "verdict": "add"}), 404)


def test_a_server_without_feedback_says_so(plain):
    asked = Asked(plain)
    body = {"text": "t", "label": "L00", "verdict": "add"}
    assert "--feedback" in refusal(asked.post("/v1/feedback", json=body), 503)
    assert not asked.get("/v1/models").json()["models"][0]["accepts_feedback"]


def test_report(calibrated, tmp_path):
    assert "treetop evaluate --report" in refusal(Asked(calibrated).get("/v1/report"), 404)
    (tmp_path / "index.html").write_text("<p>good</p>")
    reply = Asked(calibrated, report=tmp_path).get("/v1/report")
    assert reply.text == "<p>good</p>" and "sandbox" in reply.headers["content-security-policy"]


def test_health_and_figures(api):
    assert api.get("/healthz").json() == {"status": "ok"}
    ready = api.get("/readyz").json()
    assert ready["status"] == "ready" and ready["failures"] == [] and set(ready["versions"]) == {"toy", "plain"}
    api.post("/v1/predict", json={"texts": ["cat", "qqqq"]})
    text = api.get("/metrics").text
    assert 'treetop_unknown_texts_total{model="toy"}' in text and 'treetop_model_info{model="toy"' in text
    assert 'treetop_request_seconds_bucket{route="predict",le="+Inf"}' in text


def test_the_page_and_its_policy(api):
    reply = api.get("/")
    assert reply.headers["content-type"].startswith("text/html")
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';") and "unsafe" not in policy
    assert api.get("/", headers={"if-none-match": reply.headers["etag"]}).status_code == 304
    assert api.ask("HEAD", "/healthz").status_code == 200


def test_openapi_names_every_route(api):
    paths = api.get("/openapi.json").json()["paths"]
    assert {"/v1/predict", "/v1/explain", "/v1/feedback", "/v1/projects/{id}/suggest", "/metrics"} <= set(paths)
    assert "PredictBody" in json.dumps(paths["/v1/predict"]["post"]["requestBody"])
