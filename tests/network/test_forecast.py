import dataclasses
import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import toy
from treetop.assemble.plan.imagined import Size, imagined
from treetop.core.texts import Texts
from treetop.network.forecast import (
    READING,
    SHAPES,
    START,
    START_GPU,
    EncoderSize,
    batch_mean,
    expected_tokens,
    gpu_memory,
    tokens_of_label,
    within_room,
)
from treetop.network.head import HeadPlan
from treetop.tensors import devices
from treetop.train.task import TrainConfig
from treetop.training import plan

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RECORD = BENCHMARKS / "results/gpu/heads-h200.jsonl"
ON_CPU = json.loads((BENCHMARKS / "results/encoder-memory.json").read_text())["cases"]
POOLED = json.loads((BENCHMARKS / "results/gpu/pools-h200.json").read_text())["cases"]
BERT = EncoderSize(12, 768, 3072)
MEASURED = [json.loads(line) for line in RECORD.read_text().splitlines()]
MEASURED = [line for line in MEASURED if line.get("section") == "memory" and "forecast" in line]


def test_sizes_are_those_of_the_models():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(num_hidden_layers=2, hidden_size=64, intermediate_size=100, num_attention_heads=2)
    model = transformers.BertModel(config, add_pooling_layer=False)
    real = sum(weight.numel() for weight in model.parameters())
    assert EncoderSize.of(config.to_dict()).parameters == pytest.approx(real, rel=0.01)
    named = EncoderSize.of({"dim": 32, "n_layers": 3, "hidden_dim": 64, "vocab_size": 7})
    assert named == EncoderSize(3, 32, 64, 7)
    assert EncoderSize.of({}) == EncoderSize()


def test_micro_batches_double_until_a_step_fits(monkeypatch):
    monkeypatch.setattr(devices, "room", lambda device: 100)
    training, card = TrainConfig(accumulate=2), torch.device("cuda")
    made = [within_room(training, 64, card, lambda micro, need=need: need / micro) for need in (150, 500, 1e9)]
    assert [config.accumulate for config in made] == [2, 8, 64]


@pytest.mark.parametrize("line", MEASURED, ids=lambda x: f"{x['encoder']}-{x['batch']}x{x['length']}-{x['labels']}")
def test_peaks_seen_on_a_card_are_forecast_within_fifteen_percent(line):
    size = BERT if line["encoder"] == "bert-base" else EncoderSize()
    tokens = line["batch"] * line["length"] * (0.75 if line.get("ragged") else 1.0)
    labels = HeadPlan(
        view="",
        view_width=line.get("layers", 1) * size.width,
        n=line["labels"],
        keep=line.get("keep", 0),
        dimension=400,
    )
    plans = [dataclasses.replace(labels, n=line["clusters"]), labels] if line["clusters"] else [labels]
    made = gpu_memory(size, plans, rows=line["batch"], tokens=tokens, data=12 * tokens * 4 + 12 * line["batch"] * 60)
    assert made == pytest.approx(line["memory"], rel=0.15)


@pytest.mark.parametrize("case", ON_CPU, ids=lambda x: f"{x['recipe']}-{x['texts']}x{x['words']}-{x['labels']}")
def test_peaks_seen_on_a_cpu_are_forecast(case, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS / "speed")
    data = import_module("encoder_memory").made_up(case["texts"], case["words"], case["labels"])
    monkeypatch.setattr(devices, "pick", lambda name="auto": torch.device("cpu"))
    made = plan(case["recipe"]).forecast(data)
    assert 0.7 * made.memory < case["peak"] < made.memory
    monkeypatch.setattr(devices, "pick", lambda name="auto": torch.device("cuda"))
    monkeypatch.setattr(devices, "training_speed", lambda device: devices.GPU_FLOPS)
    assert plan(case["recipe"]).forecast(data).step == 0 < made.step  # what a step keeps lies on the card


@pytest.mark.parametrize("case", POOLED, ids=lambda x: x["data"])
def test_peaks_of_pools_on_a_card_are_forecast(case):
    """Clustered batches are as long as their longest cluster; figures of gpu/pools-h200.json."""
    document, label = ((case[what]["mean"] + case[what]["deviation"]) for what in ("text", "label"))
    made = gpu_memory(
        EncoderSize(),
        [HeadPlan(view="", view_width=384, n=case["labels"])],
        rows=case["batch"],
        tokens=case["batch"] * document + case["pool"] * label,
        data=8.0 * (case["texts"] * case["text"]["mean"] + case["labels"] * case["label"]["mean"])
        + 40.0 * case["batch"] * case["pool"]
        + 4.0 * 384 * (case["texts"] + case["labels"]),
    )
    assert 0.7 <= case["memory"] / made <= 1.05


def test_a_clustered_batch_is_a_deviation_above_the_mean():
    assert batch_mean(np.array([10, 10])) == 10 and batch_mean(np.array([0, 20])) == 20
    assert batch_mean(np.zeros(0, np.int64)) == 0


def test_many_shapes_were_measured():
    assert len(MEASURED) >= 10


def test_low_memory_counts_two_bytes_a_number():
    size, more = EncoderSize(), {"rows": 256, "tokens": 8192.0, "data": 0.0}
    none, some = ([HeadPlan(view="", view_width=384, n=n)] for n in (0, 10**6))
    none, full, low = (gpu_memory(size, n, low=low, **more) for n, low in ((none, False), (some, False), (some, True)))
    assert full - none > 12 * 384 * 10**6
    assert 2 * 384 * 10**6 < low - none < 2.4 * 384 * 10**6


@pytest.mark.parametrize("recipe", ["depsl", "unidec"])
def test_label_texts_are_read_with_every_batch_that_is_taken(recipe, monkeypatch):
    """Small data get small batches, and so more of them than `train.batch_size` says."""
    monkeypatch.syspath_prepend(BENCHMARKS / "speed")
    data = import_module("encoder_memory").made_up(320, 10, 2000)
    few, many = (plan(recipe, settings={"min_steps_per_epoch": steps}).forecast(data).time for steps in (1, 20))
    assert many > 10 * few


def test_a_cpu_reads_texts_once_faster_than_it_trains_and_keeps_more_for_many(encoder, monkeypatch):
    """Rates and bytes by benchmarks/results/forecasts.jsonl."""
    monkeypatch.syspath_prepend(BENCHMARKS / "speed")
    made_up = import_module("encoder_memory").made_up
    settings = {"encoder": {"model": encoder}, "frozen": True, "init": "zero", "clusters": "none"}
    few, many, most = (plan("lightxml", settings=settings).forecast(made_up(n, 200, 5)) for n in (10, 2000, 6000))
    assert few.time == pytest.approx(START, abs=1.0)
    assert many.memory - few.memory == pytest.approx(SHAPES, rel=0.3) and most.memory - many.memory < 0.2 * SHAPES
    learnt = plan("lightxml", settings=settings | {"frozen": False, "train": {"epochs": 1.0}}).forecast(
        made_up(6000, 200, 5)
    )
    assert learnt.time - START == pytest.approx(3.0 * READING * (most.time - START), rel=0.2)


def test_time_is_that_of_the_device(monkeypatch, encoder):
    settings = {"encoder": {"model": encoder}, "init": "zero"}  # nothing is read but for training
    planned, data = plan("lightxml", settings=settings), toy.dataset()
    on_cpu = planned.forecast(data, device="cpu").time
    monkeypatch.setattr(devices, "pick", lambda name="auto": torch.device(name))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(multi_processor_count=66))
    on_card = planned.forecast(data, device="cuda").time
    assert (on_cpu - START) / (on_card - START_GPU) == pytest.approx(0.5 * devices.GPU_FLOPS / devices.CPU_FLOPS)


def test_five_minutes_on_a_card_are_not_announced_as_hours(monkeypatch):
    """Data of the size of msdocs-seealso took `unidec` 354 s on an H200 (gpu/taught-h200.jsonl)."""
    monkeypatch.setattr(devices, "pick", lambda name="auto": torch.device(name))
    card = SimpleNamespace(multi_processor_count=devices.H200_MULTIPROCESSORS)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    size = Size(documents=240_791, labels=207_111, tokens=33, labels_per_document=3.0, label_tokens=33)
    needs = plan("unidec").forecast(imagined(size, bytes_per_token=4.4, described=1.0), device="cuda")
    assert 0.7 * needs.time < 354 < 1.3 * needs.time and " min of training" in needs.describe()


def test_tokens_are_counted_text_by_text_up_to_the_limit():
    texts = Texts.of(["a" * 22, "", "b" * 4400])
    assert expected_tokens(texts, 128) == pytest.approx((5 + 2) + 2 + 128)
    assert expected_tokens(Texts.of([]), 128) == 0
    size = Size(documents=1e8, labels=1e6, tokens=32, labels_per_document=3.0, label_tokens=4.0)
    made = imagined(size, bytes_per_token=5.5, described=1.0)  # a hundred million texts that take no memory
    assert expected_tokens(made.texts, 128) == pytest.approx(1e8 * (32 * 5.5 / 4.4 + 2), rel=0.01)


def test_a_label_is_read_by_its_text_or_its_name_whichever_is_longer():
    labels = SimpleNamespace(texts=Texts.of(["", "c" * 44]), names=Texts.of(["d" * 8, "e" * 8]))
    assert tokens_of_label(SimpleNamespace(labels=labels, n_labels=2), 128) == pytest.approx((2 + 12) / 2)
