import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
from treetop.assemble.neural_forecast import EncoderSize, Levels, gpu_memory

RECORD = Path(__file__).parents[2] / "benchmarks/results/gpu/heads-h200.jsonl"
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


@pytest.mark.parametrize("line", MEASURED, ids=lambda x: f"{x['encoder']}-{x['batch']}x{x['length']}-{x['labels']}")
def test_peaks_seen_on_a_card_are_forecast_within_fifteen_percent(line):
    size = BERT if line["encoder"] == "bert-base" else EncoderSize()
    tokens = line["batch"] * line["length"] * (0.75 if line.get("ragged") else 1.0)
    levels = Levels(line["labels"], line["clusters"], line.get("keep", 0), 400, line.get("layers", 1))
    made = gpu_memory(size, levels, rows=line["batch"], tokens=tokens, data=12 * tokens * 4 + 12 * line["batch"] * 60)
    assert made == pytest.approx(line["memory"], rel=0.15)


def test_many_shapes_were_measured():
    assert len(MEASURED) >= 10


def test_low_memory_counts_two_bytes_a_number():
    size, more = EncoderSize(), {"rows": 256, "tokens": 8192.0, "data": 0.0}
    none, full, low = (gpu_memory(size, Levels(n, low=low), **more) for n, low in ((0, 0), (10**6, 0), (10**6, 1)))
    assert full - none > 12 * 384 * 10**6
    assert 2 * 384 * 10**6 < low - none < 2.2 * 384 * 10**6
