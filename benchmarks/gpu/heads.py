"""What heads add to a step at 670,000 labels, tokens per second, and how much memory steps of many shapes take.

    python benchmarks/gpu/heads.py --data build/gpu --sections heads,speed,memory --out results.jsonl

Texts and labels are random; the loop runs steps as in a real training. The bare encoder is transformers' own model
with bfloat16 weights and torch's fused AdamW over the same number of tokens, eager and compiled.
"""

from __future__ import annotations

import argparse
import gc
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from engine import Stopwatch, network, run, say, timed
from pack import unpack
from scipy import sparse

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts
from treetop.core.types import LabelTree
from treetop.features.encoder.encoder import Encoder, Pooling
from treetop.features.encoder.sources import Source, find_encoder
from treetop.network.build import Blueprint, Learning
from treetop.network.forecast import EncoderSize, gpu_memory
from treetop.network.head import HeadPlan
from treetop.network.inputs import Encoded
from treetop.network.network import Network
from treetop.tensors.packed import TokenRows
from treetop.train.batches import Plan
from treetop.train.loop import train
from treetop.train.optim import AdamConfig
from treetop.train.task import TrainConfig

GPU = torch.device("cuda")


def bert_base(tokenizer: bytes) -> Source:
    """BERT base with random weights: speed and memory do not depend on them."""
    config = transformers.BertConfig(attn_implementation="sdpa")
    model = transformers.BertModel(config, add_pooling_layer=False)
    weights = {key: value.numpy() for key, value in model.state_dict().items()}
    return Source("bert-base", {**config.to_dict(), "model_type": "bert"}, weights, tokenizer)


def make(source: Source, case: dict[str, Any]) -> tuple[Network, Plan]:
    """A task over random texts of `length` tokens and `labels` labels, `clusters` of them or none."""
    rng = np.random.default_rng(0)
    batch, length, labels, clusters = (case[key] for key in ("batch", "length", "labels", "clusters"))
    n = batch * 12
    lengths = rng.integers(length // 2, length + 1, n) if case.get("ragged") else np.full(n, length)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    store = TokenRows(rng.integers(1000, 30000, ends[-1]), ends, GPU)
    encoder = Encoder(source).to(GPU)
    encoder.fuse_layers()
    pooling = Pooling("cls", tuple(range(-1, -1 - case.get("layers", 1), -1)))
    width = encoder.width * len(pooling.layers)
    Y = sparse.random(n, labels, 5 / labels, "csr", np.float32, rng)
    Y.data[:] = 1.0
    texts = Texts(np.zeros(0, np.uint8), np.zeros(n + 1, np.int64))
    empty = Texts(np.zeros(0, np.uint8), np.zeros(labels + 1, np.int64))
    dataset = Dataset(texts, Y, LabelSet(empty, empty, empty, np.zeros(labels, np.uint8)))
    head = HeadPlan(view=pooling.name, view_width=width, n=labels, dropout=0.1)
    plans, parents = [head], [np.zeros(labels, np.int32)]
    if clusters:
        below = replace(head, keep=case["keep"], dimension=case.get("bottleneck", 400))
        plans = [replace(head, n=clusters, name="clusters"), below]
        parents = [np.zeros(clusters, np.int32), (np.arange(labels) * clusters // labels).astype(np.int32)]
    learning = Learning(encoder=AdamConfig(lr=1e-5), heads=AdamConfig(lr=1e-4))
    inputs = Encoded(encoder, store, [pooling])
    task = network(inputs, dataset, Blueprint(plans, LabelTree(tuple(parents)), learning))
    return task, Plan(np.arange(n), batch, 0)


def steps(source: Source, case: dict[str, Any], first: int = 12, last: int = 36) -> dict[str, Any]:
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    task, plan = make(source, case)
    watch = Stopwatch(task, first, last)
    train(task, plan, TrainConfig(epochs=last / plan.steps, batch_size=plan.batch))
    torch.cuda.synchronize()
    seconds = (watch.times[1] - watch.times[0]) / (last - first)
    return {
        "ms": 1e3 * seconds, "tokens_per_s": watch.tokens / (last - first) / seconds,
        "memory": torch.cuda.max_memory_allocated() - before, "before": before,
        "reserved": torch.cuda.max_memory_reserved(),
    }  # fmt: skip


def bare(source: Source, batch: int, length: int, compiled: bool) -> dict[str, Any]:
    config = transformers.AutoConfig.for_model(**{k: v for k, v in source.config.items() if k != "architectures"})
    config._attn_implementation = "sdpa"
    model = transformers.AutoModel.from_config(config, dtype=torch.bfloat16).to(GPU)
    model.pooler = None
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    ids = torch.randint(1000, 30000, (batch, length), device=GPU)
    call = torch.compile(model) if compiled else model

    def step() -> None:
        call(input_ids=ids).last_hidden_state[:, 0].float().square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()

    seconds = timed(step, 20, 5)
    return {"ms": 1e3 * seconds, "tokens_per_s": batch * length / seconds}


def section_heads(sources: dict[str, Source]) -> None:
    size = {"batch": 256, "length": 128}
    heads = {
        "none": {"labels": 64, "clusters": 0},
        "670k, keep 32": {"labels": 670_091, "clusters": 8192, "keep": 32},
        "670k, keep 75": {"labels": 670_091, "clusters": 8192, "keep": 75},
    }
    for name, source in sources.items():
        for compiled in (False, True)[: 2 if name != "bert-base" else 1]:
            say(section="heads", encoder=name, bare=True, compiled=compiled, **size, **bare(source, 256, 128, compiled))
        base = 0.0
        for head, case in heads.items():
            made = steps(source, {**size, **case})
            base = base or made["ms"]
            say(section="heads", encoder=name, heads=head, **size, **case, **made, added=made["ms"] / base - 1)


def section_speed(sources: dict[str, Source]) -> None:
    """Real tokens per second of whole steps with all 24,199 labels, beside the bare encoder over as many tokens."""
    name, source = next(iter(sources.items()))
    for batch in (1024, 2048):
        best = 0.0
        for compiled in (False, True):
            made = bare(source, batch, 17, compiled)
            best = max(best, made["tokens_per_s"])
            say(section="speed", encoder=name, bare=True, compiled=compiled, batch=batch, length=17, **made)
        case = {"batch": batch, "length": 17, "labels": 24_199, "clusters": 0}
        made = steps(source, case, 24, 84)
        say(section="speed", encoder=name, **case, **made, of_bare=made["tokens_per_s"] / best)


def section_memory(sources: dict[str, Source]) -> None:
    flat = {"clusters": 0}
    cases = [
        {"batch": 1024, "length": 17, "labels": 24_199, **flat},
        {"batch": 2048, "length": 17, "labels": 24_199, **flat},
        {"batch": 256, "length": 128, "labels": 24_199, **flat}, {"batch": 512, "length": 64, "labels": 1_000, **flat},
        {"batch": 256, "length": 128, "labels": 300_000, **flat},
        {"batch": 256, "length": 64, "labels": 24_199, "layers": 5, **flat},
        {"batch": 256, "length": 64, "labels": 200_000, "clusters": 4096, "keep": 32},
        {"batch": 128, "length": 128, "labels": 670_091, "clusters": 8192, "keep": 75, "layers": 5},
        {"batch": 512, "length": 300, "labels": 10_000, "ragged": True, **flat},
    ]  # fmt: skip
    for name, source in sources.items():
        for case in cases if name != "bert-base" else cases[:3] + cases[6:8]:
            try:
                made = steps(source, case, 3, 5)
                say(section="memory", encoder=name, **case, **made, **forecast(source, case))
            except Exception:
                say(section="memory", encoder=name, **case, error=traceback.format_exc()[-800:])


def forecast(source: Source, case: dict[str, Any]) -> dict[str, float]:
    n = case["batch"] * 12
    mean = case["length"] * (0.75 if case.get("ragged") else 1.0)
    size = EncoderSize.of(source.config)
    labels = HeadPlan(
        view="", view_width=case.get("layers", 1) * size.width, n=case["labels"], keep=case.get("keep", 0),
        dimension=case.get("bottleneck", 400),
    )  # fmt: skip
    plans = [replace(labels, n=case["clusters"]), labels] if case["clusters"] else [labels]
    made = gpu_memory(
        size,
        plans,
        rows=case["batch"],
        tokens=case["batch"] * mean,
        data=n * mean * 4 + n * 60,
    )
    return {"forecast": made}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sections", default="heads,memory")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    folder = unpack(options.data)
    minilm = find_encoder(str(folder))
    sources = {"all-MiniLM-L6-v2": minilm, "bert-base": bert_base(minilm.tokenizer)}
    sections = {"heads": section_heads, "speed": section_speed, "memory": section_memory}
    run({name: partial(work, sources) for name, work in sections.items()}, options.sections.split(","), options.out)


if __name__ == "__main__":
    main()
