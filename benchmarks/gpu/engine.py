"""Speed and accuracy of the neural engine on one GPU, the bare encoder beside it.

    python benchmarks/gpu/pack.py build/gpu DATA
    python benchmarks/gpu/engine.py --data build/gpu --sections attention,bare,ours,train --out results.jsonl

Sections: attention, bare, ours, profile, check, train; each prints JSON lines. Choices are made on rows held out from
train; `--test` adds one look at the test rows.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pack import unpack

from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts
from treetop.evaluate.match import hits
from treetop.features.encoder.encoder import Encoder, Pooling
from treetop.features.encoder.sources import find_encoder
from treetop.features.encoder.tokens import Tokenizer
from treetop.kernels.gpu import packed_attention as attention
from treetop.network.build import Blueprint, Learning
from treetop.network.head import HeadPlan
from treetop.network.inputs import Encoded
from treetop.network.network import Network, RowTargets
from treetop.network.vectors.full import FullTable
from treetop.network.watch import rows_held_out
from treetop.partition.flat import flat
from treetop.tensors.packed import TokenRows
from treetop.train.batches import Batch, Plan, split_off
from treetop.train.loop import train
from treetop.train.optim import AdamConfig, AdamW, ScheduleConfig
from treetop.train.task import TrainConfig

GPU = torch.device("cuda")
OUT: list[dict[str, Any]] = []


def say(**line: Any) -> None:
    OUT.append(line)
    print(json.dumps(line), flush=True)


def timed(work: Callable[[], Any], repeat: int, warm: int = 3) -> float:
    """Seconds of one call: host clock around `repeat` of them, waiting at both ends."""
    for _ in range(warm):
        work()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(repeat):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / repeat


class Data:
    """Tokens and targets of `folder/name`, with the encoder beside it."""

    def __init__(self, folder: Path, max_length: int = 128, name: str = "finna-yso-en-25k") -> None:
        self.folder = unpack(folder)
        tokenizer = Tokenizer(find_encoder(str(self.folder)).tokenizer, max_length)
        train = Dataset.read(folder / name, "train")
        test = Dataset.read(folder / name, "test").align(train.labels)
        self.n_labels = train.n_labels
        self.labels = tokenizer.encode(train.labels.texts)
        self.parts = {}
        for split, part in (("train", train), ("test", test)):
            tokens = tokenizer.encode(part.texts)
            self.parts[split] = (tokens.ids, tokens.offsets, part.Y)

    def store(self, name: str) -> TokenRows:
        ids, offsets, _ = self.parts[name]
        return TokenRows(ids, offsets, GPU)

    def dataset(self, name: str) -> Dataset:
        Y = self.parts[name][2]
        n = Y.shape[0]
        texts = Texts(np.zeros(0, np.uint8), np.zeros(n + 1, np.int64))
        return Dataset(texts, Y, LabelSet.of([str(i) for i in range(self.n_labels)]), name=name)


def run(sections: dict[str, Callable[[], None]], wanted: list[str], out: Path | None) -> None:
    """Some sections one after the other; one that fails says so, and the next one runs."""
    say(section="machine", gpu=torch.cuda.get_device_name(), torch=torch.__version__)
    for name in wanted:
        started = time.perf_counter()
        try:
            sections[name]()
        except Exception:
            say(section=name, error=traceback.format_exc()[-1500:])
        say(section=name, took_s=time.perf_counter() - started)
        if out:
            out.write_text("".join(json.dumps(line) + "\n" for line in OUT))


# --- sections -------------------------------------------------------------------------------------------------------


def section_attention(data: Data) -> None:
    """The fused programs against the twin, and their time against flash attention, on real lengths."""
    rng = np.random.default_rng(int(time.time()))
    packed = data.store("train").gather(rng.choice(100_000, 2048, replace=False))
    shape = (len(packed.ids), 12, 32)
    q, k, v = (torch.randn(shape, device=GPU, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    slope = torch.randn(shape, device=GPU, dtype=torch.bfloat16)
    wide = [x.detach().float().requires_grad_() for x in (q, k, v)]
    twin = attention.attend_plain(*wide, packed.starts, scale=32**-0.5)
    expected = torch.autograd.grad(twin, wide, slope.float())
    for name, dropout in (("fused", 0.0), ("flash", 0.0), ("fused", 0.1), ("flash", 0.1)):
        long = 0 if name == "fused" else 128

        def run(long: int = long, dropout: float = dropout) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
            out = attention.attend(q, k, v, packed.starts, long, scale=32**-0.5, dropout=dropout)
            return out, torch.autograd.grad(out, (q, k, v), slope)

        out, grads = run()
        errors = [float((out.detach().float() - twin.detach()).norm() / twin.detach().norm())]
        errors += [float((a.float() - b).norm() / b.norm()) for a, b in zip(grads, expected, strict=True)]
        both = timed(run, 20)
        say(section="attention", name=name, dropout=dropout, errors=errors, ms=1e3 * both)


def section_bare(data: Data) -> None:
    """transformers' own model: texts of one length, no padding, bf16 weights, fused AdamW; eager and compiled."""
    import transformers

    length = round(float(np.diff(data.parts["train"][1]).mean()))
    for texts in (2048, 4096):
        for compiled in (False, True):
            model = transformers.AutoModel.from_pretrained(
                data.folder, dtype=torch.bfloat16, attn_implementation="sdpa"
            ).to(GPU)
            model.pooler = None
            model.train()
            optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
            ids = torch.randint(1000, 30000, (texts, length), device=GPU)
            call = torch.compile(model) if compiled else model

            def step(call: Any = call, ids: Any = ids, optimiser: Any = optimiser) -> None:
                call(input_ids=ids).last_hidden_state.mean(1).float().square().mean().backward()
                optimiser.step()
                optimiser.zero_grad()

            started = time.perf_counter()
            step()
            torch.cuda.synchronize()
            first = time.perf_counter() - started
            seconds = timed(step, 20, 5)
            say(
                section="bare", texts=texts, length=length, compiled=compiled, first_s=first, ms=1e3 * seconds,
                tokens_per_s=texts * length / seconds, memory=torch.cuda.max_memory_allocated(),
            )  # fmt: skip
            del model, optimiser, call
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


def network(inputs: Encoded, dataset: Dataset, blueprint: Blueprint, held_out: np.ndarray | None = None) -> Network:
    """The untrained network of a blueprint over all rows of a data set."""
    seen = None if held_out is None else rows_held_out(dataset, inputs, held_out)
    return blueprint.network(dataset, inputs, seed=0, watched=seen, targets=RowTargets(dataset.Y))


def make_task(data: Data, args: dict[str, Any], held_out: np.ndarray) -> Network:
    encoder = Encoder(
        find_encoder(str(data.folder)), dropout=args.get("encoder_dropout"),
        attention_dropout=args.get("attention_dropout", args.get("encoder_dropout")),
    ).to(GPU)  # fmt: skip
    if args.get("compile", False):
        encoder.compile_layers()
    elif args.get("fuse", True):
        encoder.fuse_layers()
    pooling = Pooling(args.get("pooling", "mean"), tuple(args.get("layers", (-1,))))
    inputs = Encoded(encoder, data.store("train"), [pooling])
    width = encoder.width * len(pooling.layers)
    plan = HeadPlan(
        view=pooling.name, view_width=width, n=data.n_labels, dropout=args.get("dropout", 0.1),
        length=args.get("l2", 0.0),
    )  # fmt: skip
    learning = Learning(
        encoder=AdamConfig(lr=args.get("lr", 4e-4), weight_decay=args.get("decay", 0.01), eps=args.get("eps", 1e-8)),
        heads=AdamConfig(
            lr=args.get("head_lr", 4e-3), weight_decay=args.get("head_decay", 0.0),
            beta2=args.get("head_beta2", 0.999), eps=args.get("head_eps", 1e-8),
        ),
        bias=args.get("bias", True), reduce=args.get("reduce", "sum"),
    )  # fmt: skip
    task = network(inputs, data.dataset("train"), Blueprint([plan], flat(data.n_labels), learning), held_out)
    if args.get("float32"):
        task.low, full(task).kind = (), torch.float32
    return task


def full(task: Network) -> FullTable:
    """The label vectors of its only head."""
    vectors = task.heads[-1].vectors
    if not isinstance(vectors, FullTable):
        raise TypeError("its label vectors are not those of a full classifier")
    return vectors


class Stopwatch:
    """Reads the clock at two steps of a run, waiting for the device."""

    def __init__(self, task: Network, first: int, last: int) -> None:
        self.real, self.first, self.last, self.count, self.tokens = task.tokens, first, last, 0, 0
        self.times: list[float] = []
        task.tokens = self  # type: ignore[method-assign, assignment]

    def __call__(self, rows: np.ndarray) -> int:
        found = self.real(rows)
        self.count += 1
        if self.first < self.count <= self.last:
            self.tokens += found
        if self.count in (self.first, self.last):
            torch.cuda.synchronize()
            self.times.append(time.perf_counter())
        return found


def section_ours(data: Data) -> None:
    """Whole steps of our engine with the full classifier, as the loop runs them."""
    n = data.parts["train"][2].shape[0]
    cases = [
        {"batch": 2048}, {"batch": 2048, "attention_dropout": 0.0}, {"batch": 2048, "fuse": False},
        {"batch": 1024}, {"batch": 1024, "attention_dropout": 0.0}, {"batch": 4096, "attention_dropout": 0.0},
        {"batch": 512, "attention_dropout": 0.0},
    ]  # fmt: skip
    for case in cases:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        task = make_task(data, case, np.zeros(0, np.int64))
        watch = Stopwatch(task, 60, 130)
        plan = Plan(np.arange(n), case["batch"], 0)
        config = TrainConfig(epochs=130 / plan.steps, batch_size=case["batch"], cuda_graphs=case.get("record", True))
        started = time.perf_counter()
        train(task, plan, config)
        seconds = watch.times[1] - watch.times[0]
        say(
            section="ours", **case, first_60_s=watch.times[0] - started, ms=1e3 * seconds / 70,
            tokens_per_s=watch.tokens / seconds, memory=torch.cuda.max_memory_allocated(),
        )  # fmt: skip
        del task, watch


def section_profile(data: Data) -> None:
    """Which kernels take the time of a whole step."""
    from torch.profiler import ProfilerActivity, profile

    task = make_task(data, {"attention_dropout": 0.0}, np.zeros(0, np.int64))
    optimiser = AdamW(task.modules, low=task.low, kind=torch.bfloat16)
    for module, _ in task.modules.values():
        module.train()
    rng = np.random.default_rng(0)

    def step() -> None:
        rows = rng.integers(0, 150_000, 2048)
        full(task).prepare(1.0, fuse=True, value=False)
        task.loss(task.load(Batch(rows, rows, 2048, 0), True)).backward()
        optimiser.collect()
        optimiser.step()
        full(task).apply()

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(5):
            step()
        torch.cuda.synchronize()
    rows = sorted(seen.key_averages(), key=lambda row: -row.self_device_time_total)[:28]
    for row in rows:
        say(section="profile", kernel=row.key[:90], us_per_step=row.self_device_time_total / 5, calls=row.count / 5)


def section_check(data: Data) -> None:
    """Recorded steps against plain ones, fused layers against torch's, and fresh dropout in every replay."""
    n = 20_000
    ends = {}
    for name, args in (
        ("plain", {"record": False, "fuse": False}), ("fused", {"record": False}), ("recorded", {}),
        ("again", {"record": False, "fuse": False}),
    ):  # fmt: skip
        task = make_task(data, {**args, "encoder_dropout": 0.0, "dropout": 0.0}, np.zeros(0, np.int64))
        config = TrainConfig(epochs=2, batch_size=512, cuda_graphs=args.get("record", True))
        train(task, Plan(np.arange(n), 512, 0), config)
        ends[name] = (full(task).weight.clone(), task.inputs.encoder.body.encoder.layer[0].output.dense.weight.clone())
    for name in ("fused", "recorded", "again"):
        far = [float((a - b).norm() / b.norm()) for a, b in zip(ends[name], ends["plain"], strict=True)]
        say(section="check", name=name, relative_difference=far)
    task = make_task(data, {}, np.zeros(0, np.int64))
    task.inputs.encoder.to(torch.bfloat16).train()
    rows = np.arange(512)
    static = task.load(Batch(rows, rows, 512, 0), True)
    out: list[torch.Tensor] = []
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        views = task.inputs.views(static.parts["inputs"])
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            views = next(iter(task.inputs.views(static.parts["inputs"]).values()))
        for seed in (1, 2, 1):
            torch.manual_seed(seed)
            graph.replay()
            out.append(views.clone())
    torch.cuda.synchronize()
    say(section="check", seeds_differ=bool((out[0] - out[1]).abs().max() > 0.01), repeats=torch.equal(out[0], out[2]))


def precisions(task: Network, rows: np.ndarray, Y: Any) -> dict[str, float]:
    top = np.concatenate([task.top_labels(rows[i : i + 2048], 5) for i in range(0, len(rows), 2048)])
    hit = hits(top, Y[rows])
    return {f"P@{k}": round(100 * float(hit[:, :k].mean()), 2) for k in (1, 3, 5)}


def section_train(data: Data, runs: list[dict[str, Any]], look: bool) -> None:
    """Whole trainings; seconds run from before the first step (compile included) to after the last."""
    n = data.parts["train"][2].shape[0]
    for args in runs:
        rows, held_out = (
            split_off(np.arange(n), min(0.5, 12_000 / n), 0, at_most=12_000)
            if not look
            else (np.arange(n), np.zeros(0, np.int64))
        )
        torch.cuda.reset_peak_memory_stats()
        task = make_task(data, args, held_out)
        config = TrainConfig(
            epochs=args.get("epochs", 8), batch_size=args.get("batch", 2048),
            schedule=ScheduleConfig(kind=args.get("schedule", "linear"), warmup=args.get("warmup", 0.05)),
            average=args.get("average", "none"), ema_decay=args.get("ema", 0.99), cuda_graphs=args.get("record", True),
        )  # fmt: skip
        task.watched = None
        plan = Plan(rows, config.batch_size, args.get("seed", 0))
        torch.cuda.synchronize()
        started = time.perf_counter()
        result = train(task, plan, config)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - started
        if not args.get("float32"):
            task.inputs.encoder.to(torch.bfloat16)
        made = precisions(task, held_out, data.parts["train"][2]) if not look else {}
        if look:
            task.inputs.store = data.store("test")
            made = precisions(task, np.arange(data.parts["test"][2].shape[0]), data.parts["test"][2])
        say(
            section="train", on="test" if look else "held-out", **args, seconds=seconds, steps=result.steps, **made,
            tokens_per_s=result.tokens / seconds, memory=result.memory, loss=result.loss,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sections", default="attention,bare,ours,profile,train")
    parser.add_argument("--runs", default="[{}]", help="JSON list of settings for whole trainings")
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    data = Data(options.data, options.max_length)
    sections: dict[str, Callable[[], None]] = {
        "attention": partial(section_attention, data), "bare": partial(section_bare, data),
        "ours": partial(section_ours, data), "profile": partial(section_profile, data),
        "check": partial(section_check, data),
        "train": partial(section_train, data, json.loads(options.runs), options.test),
    }  # fmt: skip
    run(sections, options.sections.split(","), options.out)


if __name__ == "__main__":
    main()
