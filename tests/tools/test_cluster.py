"""Tables of clusters, processes, memory limits and plans say what their records say."""

import json

from tools.docs import cluster
from treetop.core.provenance import FORMAT


def tables(folder, file, records):
    lines = (json.dumps({"format": FORMAT, **record}) + "\n" for record in records)
    (folder / file).write_text("".join(lines), encoding="utf-8")
    return folder


def test_nodes_kills_and_predictions(tmp_path):
    kills = {"trainings": 5, "same": 4, "kills": {"node": 2, "command": 1}}
    pair = {"seconds_cluster": 12.0, "seconds_threads": 9.6, "same": True}
    answers = {"texts": 1000, "rows": 1000, "rows_differing": 1, "seconds": 7, "kills": 2, "memory_peak": 5e8}
    found = [
        {"name": "bytes xr_linear d", "data": "d", "nodes": 4, **pair},
        {"name": "namespaces d", "data": "d", "nodes": 2, "bytes_sent": 3e6, **pair},
        {"name": "kills d", "data": "d", "nodes": 4, **kills},
        {"name": "predict 1000 d", "data": "d", "nodes": 2, "memory_limit": 1e9, **answers},
        {"name": "networks renee"},
    ]
    rows = cluster.cluster(tables(tmp_path, "cluster.jsonl", found), ()).splitlines()[2:]
    assert rows == [
        "| batch prediction | d | 2 | 1,000 texts in 7 s, 2 kills; a process may have 1,000 MB of its own, with mapped "
        "files the largest had 500 MB | **no** |",
        "| training over two network namespaces | d | 2 | 12 s, one process 10 s, 3 MB sent | yes |",
        "| training, a core each | d | 4 | 12 s, one process 10 s | yes |",
        "| training, killed at random | d | 4 | 5 trainings, 3 kills (1 of a command, 2 of a node) | 4 of 5 |",
    ]


def test_overhead_is_a_ratio_to_threads_of_the_same_data(tmp_path):
    shared = {"settings": ["trees=8"], "cpu_seconds": 600.0, "seconds_start": 0.0}
    found = [
        {"name": "overhead threads d", "data": "d", "nodes": 0, "seconds": 300, "hash": "a", **shared},
        {"name": "overhead 2 d", "data": "d", "nodes": 2, "seconds": 330, "hash": "b", **shared},
        {"name": "overhead 1 e", "data": "e", "nodes": 1, "seconds": 330, "hash": "b", **shared},
    ]
    rows = cluster.overhead(tables(tmp_path, "cluster.jsonl", found), ()).splitlines()[2:]
    assert rows == [
        "| threads | d | trees=8 | 300 | 600 | 0 | 1.00 | yes |",
        "| 2 nodes | d | trees=8 | 330 | 600 | 0 | 1.10 | **no** |",
        "| 1 node | e | trees=8 | 330 | 600 | 0 | – | – |",
    ]


def test_processes_memory_and_plans(tmp_path):
    memory = {"memory_mb_one": [500.0], "memory_mb_two": [410.0, 390.4]}
    score = {"P@1": 50.0, "P@5": 20.5}
    found = [
        {"name": "networks unidec", "one": [score, score], "two": score, **memory},
        {"name": "networks table", "labels": 300_000, "table_mb": 76.8, **memory},
    ]
    rows = cluster.processes(tables(tmp_path, "cluster.jsonl", found), ()).splitlines()[2:]
    assert rows == [
        "| `unidec` | 50.00 / 20.50, 50.00 / 20.50 | 50.00 / 20.50 | 500 | 410, 390 |",
        "| `renee`, 300,000 labels (table 77 MB) | – | – | 500 | 410, 390 |",
    ]
    run = {"seconds": 69.3, "cpu_s": 60.1, "peak_gb": 0.494, "disk_gb": 1.33}
    limited = {"name": "gen-1m xr_linear 6e+08", "limit": 6e8, "model_gb": 0.471, "same_bytes": True, **run}
    rows = cluster.larger(tables(tmp_path, "larger.jsonl", [limited | {"free": run}]), ()).splitlines()[2:]
    assert rows == [
        "| gen-1m | 0.6 GB | 69 | 60 | 0.49 | 1.33 | 0.47 | yes |",
        "| gen-1m | none | 69 | 60 | 0.49 | 1.33 | 0.47 |  |",
    ]
    ratio = {"fit ÷ plan": 0.9}
    plan = {"name": "d xr_linear", "data": "d", "seconds": ratio, "memory": ratio, "model": ratio, "cpu_seconds": ratio}
    rows = cluster.planned(tables(tmp_path, "plan.jsonl", [plan]), ()).splitlines()[2:]
    assert rows == ["| d | 0.90 | 0.90 | 0.90 | 0.90 |"]
