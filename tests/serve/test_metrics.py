"""Figures of all workers, added up."""

import numpy as np
import pytest

from treetop.serve.metrics import ROUTES, Metrics, create


def values(text):
    """{name and labels: value} of the lines that are no comments."""
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line[:1] not in "#"}


def test_workers_add_up(tmp_path):
    file = create(["a", "b"], 2)
    try:
        one, two = (Metrics.shared(file, ["a", "b"], 2, slot) for slot in range(2))
        for metrics in (one, two, two):
            metrics.count(ROUTES.index("predict"), 200, 0.004)
            metrics.saw(1, False, 0.5, 0.95, 0.31)
        two.count(ROUTES.index("predict"), 429, 0.0001)
        two.count(ROUTES.index("labels"), 503, 7.0)
        one.gauges[:3] = 3, 80, 1000
        two.gauges[:3] = 4, 40, 500
        found = values(Metrics.shared(file, ["a", "b"], 2, 0).text([("a", "v1", "popular"), ('b"\n', "v2", "x")]))
    finally:
        file.unlink()
    assert found['treetop_requests_total{route="predict",status="2xx"}'] == 3
    assert found['treetop_requests_total{route="predict",status="429"}'] == 1
    assert found['treetop_requests_total{route="labels",status="5xx"}'] == 1
    assert found['treetop_request_seconds_bucket{route="predict",le="0.002"}'] == 1
    assert found['treetop_request_seconds_bucket{route="predict",le="0.005"}'] == 4
    assert found['treetop_request_seconds_count{route="labels"}'] == 1
    assert found['treetop_request_seconds_sum{route="predict"}'] == pytest.approx(0.0121)
    assert (found["treetop_in_flight"], found["treetop_in_flight_limit"], found["treetop_workers"]) == (7, 120, 2)
    assert found['treetop_texts_total{model="b"}'] == 3 and found['treetop_texts_total{model="a"}'] == 0
    assert found['treetop_known_words_sum{model="b"}'] == 1.5
    assert found['treetop_best_score_bucket{model="b",le="0.9"}'] == 0
    assert found['treetop_best_probability_bucket{model="b",le="0.4"}'] == 3
    assert found['treetop_best_score_sum{model="b"}'] == pytest.approx(2.85)
    assert found['treetop_model_info{model="a",version="v1",recipe="popular"}'] == 1
    assert 'treetop_model_info{model="b\\"\\n",version="v2",recipe="x"}' in found


@pytest.mark.parametrize(
    ("status", "name"), [(200, "2xx"), (201, "2xx"), (304, "3xx"), (404, "4xx"), (429, "429"), (507, "5xx")]
)
def test_kinds_of_status(status, name):
    metrics = Metrics.alone(["a"])
    metrics.count(0, status, 0.1)
    assert values(metrics.text())[f'treetop_requests_total{{route="predict",status="{name}"}}'] == 1


def test_texts_without_words_labels_or_probabilities():
    metrics = Metrics.alone(["a"])
    metrics.saw(0, True, None, None, None)
    found = values(metrics.text())
    assert found['treetop_unknown_texts_total{model="a"}'] == 1 and found['treetop_known_words_count{model="a"}'] == 0
    assert np.isfinite(list(found.values())).all()
