"""What UniDEC's training takes as labels grow and the pool does not: GPU bytes, milliseconds of a step, refreshes.

    python benchmarks/gpu/label_memory.py --data build/gpu --out results.jsonl

Made-up data: documents with five labels each, label texts of 3 to 8 words of the encoder's vocabulary. Clusters and
hard negatives are found once, then steps are timed. One JSON line for each number of labels and place of the label
vectors (`classifier.offload`). `step_peak` are the most bytes held by torch on the GPU between refresh and end, `rest`
the same without label vectors, their states and the tokens of all texts: encoder with its states, activations,
gradients. The last line says whether a table on the host learns to the bit like one on the GPU, and how fast.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pack import unpack
from scipy import sparse

from treetop.assemble.dual.fit import DualPlan, _task
from treetop.assemble.dual.pairs import known_of
from treetop.core.dataset import Dataset, LabelSet
from treetop.core.texts import Texts
from treetop.features.encoder.tokens import Tokens
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.network.prepare import Prepared
from treetop.network.samplers.clustered import PoolPlan
from treetop.network.samplers.pools import PoolConfig
from treetop.network.vectors.rows import RowTable
from treetop.recipes import unidec
from treetop.tensors.devices import ALONE
from treetop.train import journal
from treetop.train.loop import train
from treetop.train.optim import AdamConfig

STATUS = Path("/proc/self/status")
LONGEST = 32  # tokens of a document


class Clock:
    """Seconds with the GPU's work done, and its peaks."""

    def __init__(self, device: torch.device) -> None:
        self.gpu = device.type == "cuda"

    def now(self) -> float:
        if self.gpu:
            torch.cuda.synchronize()
        return time.perf_counter()

    def fresh(self) -> None:
        if self.gpu:
            torch.cuda.reset_peak_memory_stats()

    def peak(self) -> int:
        return torch.cuda.max_memory_allocated() if self.gpu else 0


def host_peak(fresh: bool = False) -> int:
    """Most bytes of this process in memory since the last call with `fresh`, where the kernel allows that."""
    if fresh:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


# --- made-up data -----------------------------------------------------------------------------------------------------


class Words:
    """Words that the tokenizer takes for one token each, so that tokens need no tokenizer."""

    def __init__(self, transformer: Transformer) -> None:
        library = transformer.tokenizer._library
        known = library.get_vocab(False)
        found = sorted(word for word in known if word.isascii() and word.isalpha() and word.islower())
        tokens = transformer.tokenizer.encode(Texts.of(found))
        alone = np.flatnonzero(tokens.lengths == 3)
        self.words = [found[i] for i in alone]
        self.first, self.last = (int(tokens.ids[tokens.offsets[alone[0]] + place]) for place in (0, 2))
        self.numbers, self.type = tokens.ids[tokens.offsets[alone] + 1], tokens.ids.dtype

    def texts(self, n: int, low: int, high: int, rng: np.random.Generator) -> tuple[list[str], Tokens]:
        """Texts of `low` to `high` words, and their tokens."""
        lengths = rng.integers(low, high + 1, n)
        drawn = rng.integers(0, len(self.words), int(lengths.sum()))
        ends = np.cumsum(lengths)
        named = [self.words[i] for i in drawn.tolist()]
        texts = [" ".join(named[b - m : b]) for b, m in zip(ends.tolist(), lengths.tolist(), strict=True)]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths + 2)])
        ids = np.empty(offsets[-1], self.type)
        ids[offsets[:-1]], ids[offsets[1:] - 1] = self.first, self.last
        ids[np.arange(len(drawn)) + 2 * np.repeat(np.arange(n), lengths) + 1] = self.numbers[drawn]
        return texts, Tokens(ids, offsets)


def made_up(documents: int, labels: int, words: Words) -> tuple[Dataset, Tokens]:
    """A data set and the tokens of its documents, then of its labels."""
    rng = np.random.default_rng(labels)
    names, name_tokens = words.texts(labels, 3, 8, rng)
    texts, tokens = words.texts(documents, 10, LONGEST - 2, rng)
    columns = rng.integers(0, labels, 5 * documents)
    Y = sparse.csr_matrix((np.ones(len(columns), np.float32), (np.repeat(np.arange(documents), 5), columns)),
                          (documents, labels))  # fmt: skip
    Y.sum_duplicates()
    Y.data[:] = 1.0
    data = Dataset(Texts.of(texts), Y, LabelSet.of([str(i) for i in range(labels)], names=names))
    return data, Tokens.concat([tokens, name_tokens])


def check(words: Words, transformer: Transformer) -> None:
    """Refuse to go on with tokens that the tokenizer would not make."""
    texts, tokens = words.texts(50, 3, 8, np.random.default_rng(0))
    found = transformer.tokenizer.encode(Texts.of(texts))
    if not (np.array_equal(found.ids, tokens.ids) and np.array_equal(found.offsets, tokens.offsets)):
        raise SystemExit("label_memory: the tokenizer does not take words for tokens; use another encoder.")


# --- training ---------------------------------------------------------------------------------------------------------


def settings(options: argparse.Namespace, place: str, steps: int, batches: int) -> unidec.Config:
    plain = unidec.Config()
    return unidec.Config(
        encoder=TransformerConfig(model=str(options.encoder), max_length=LONGEST),
        classifier=replace(plain.classifier, init="random", offload=place == "host"),
        pool=PoolConfig(size=options.pool, mine_from=0),
        train=replace(plain.train, batch_size=options.batch, epochs=steps / batches),
        min_steps_per_epoch=1,
    )


def one(
    options: argparse.Namespace, data: Dataset, tokens: Tokens, place: str, *, device: torch.device
) -> dict[str, Any]:
    """Train a little; what that took."""
    steps, clock = options.warm + options.steps + 1, Clock(device)
    batches = 1 << PoolConfig().splits(len(data), options.batch, 0)
    config = settings(options, place, steps, batches)
    host_peak(fresh=True)
    transformer = Transformer.load(config.encoder, dropout=config.encoder_dropout)
    prepared = Prepared(transformer, tokens, device)
    inputs = prepared.learning()
    started = clock.now()
    rows = np.arange(len(data))
    heads = DualPlan.of(config, data, config.classifier, config.label_optimizer)
    task, plan = _task(data, prepared, inputs, heads, known_of(data), rows, None, 0, ALONE)
    free = task.head("classifier")
    table = None if free is None else free.table
    if not isinstance(table, RowTable):
        raise TypeError("not UniDEC's task")
    inputs.use_fast_layers()
    built = clock.now() - started
    times, refresh = watched(plan, steps, clock, options.steps)
    result = train(task, plan, heads.train, name="train")
    vectors = table.weight.nbytes
    states = sum(tensor.nbytes for tensor in table.state().values()) - vectors
    ids, there = inputs.store.ids.nbytes, 0 if place == "host" else vectors + states
    peak = clock.peak()
    return {
        "pool": options.pool, "batch": options.batch, "documents": len(data), "steps": result.steps,
        "loss": round(result.loss, 4), "vectors": vectors, "states": states, "tokens": ids, "step_peak": peak,
        "rest": peak - there - ids if clock.gpu else None, "refresh_peak": refresh[0][1],
        "refresh_s": [round(seconds, 2) for seconds, _ in refresh], "build_s": round(built, 2),
        "step_ms": round(1e3 * (times[1] - times[0]) / options.steps, 3), "host_peak_rss": host_peak(),
        "pool_mean": round(float(np.mean(times[2])), 1),
    }  # fmt: skip


def watched(plan: PoolPlan, steps: int, clock: Clock, measured: int) -> tuple[list[Any], list[tuple[float, int]]]:
    """Lists that fill while training: begin and end of the measured steps with the pools' sizes, and the refreshes."""
    batch, times, refreshes = plan.pools.batch, [0.0, 0.0, []], list[tuple[float, int]]()
    real = PoolPlan.refresh

    def counted(*args: Any) -> Any:
        step = args[2]
        if step in (steps - 1 - measured, steps - 1):
            times[int(step == steps - 1)] = clock.now()
        made = batch(*args)
        times[2].append(len(made.pool))
        return made

    def refresh(self: PoolPlan, epoch: int) -> None:
        if not self.config.due(epoch) or int(self.mining.epoch) >= epoch:
            return
        clock.fresh()
        started = clock.now()
        real(self, epoch)
        refreshes.append((clock.now() - started, clock.peak()))
        clock.fresh()

    plan.pools.batch = counted  # type: ignore[method-assign]
    object.__setattr__(plan, "refresh", refresh.__get__(plan))
    return times, refreshes


# --- the table alone --------------------------------------------------------------------------------------------------


def same_bits(labels: int, pool: int, device: torch.device, width: int = 384) -> dict[str, Any]:
    """Rows of pools taken and updated, on the GPU, there again, and on its host."""
    made, clock, found = [], Clock(device), dict[str, Any]()
    for host in (False, False, True):
        torch.manual_seed(0)
        table = RowTable(labels, width, AdamConfig(lr=1e-3), device, bias=True, host=host)
        table.init(torch.randn(labels, width))
        pools = [torch.randperm(labels)[:pool].sort().values.to(device) for _ in range(20)]
        slopes = torch.randn(pool, width + 1).to(device)

        def go(table: RowTable = table, pools: Any = pools, slopes: torch.Tensor = slopes) -> None:
            for ids in pools:
                table.prepare(1.0, fuse=True, value=False)
                table.take(ids).backward(slopes)
                table.apply()

        go()
        started = clock.now()
        go()
        found["host_ms" if host else "device_ms"] = round(1e3 * (clock.now() - started) / len(pools), 4)
        made.append({name: tensor.cpu() for name, tensor in table.state().items()})
    first, again, there = made
    return {
        "labels": labels, "pool": pool, "equal": apart(first, there) == {}, "again": apart(first, again),
        "apart": apart(first, there), **found,
    }  # fmt: skip


def apart(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Of each part that differs: by how much at most, in how many rows."""
    made = {}
    for name, held in one.items():
        gap = (held.double() - other[name].double()).abs().reshape(len(held), -1).amax(1)
        if not torch.equal(held, other[name]):
            made[name] = [float(gap.max()), int((gap > 0).sum())]
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the encoder (pack.py)")
    parser.add_argument("--labels", type=int, nargs="+", default=[24_199, 100_000, 1_300_000])
    parser.add_argument("--places", nargs="+", default=["device", "host"])
    parser.add_argument("--documents", type=int, default=65_536)
    parser.add_argument("--pool", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=30, help="measured ones")
    parser.add_argument("--warm", type=int, default=30, help="steps before these")
    parser.add_argument("--seconds", type=float, default=140.0, help="start nothing after this")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    begun, device = time.perf_counter(), torch.device(options.device)

    def say(**line: Any) -> None:
        print(json.dumps(line), flush=True)
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(line) + "\n")

    options.encoder = unpack(options.data)
    journal.SECONDS = 1e9  # no step stops for a look at its loss
    torch.backends.cuda.matmul.allow_tf32 = True
    machine = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    say(section="machine", device=machine, torch=torch.__version__)
    transformer = Transformer.load(TransformerConfig(model=str(options.encoder), max_length=LONGEST))
    words = Words(transformer)
    check(words, transformer)
    first = argparse.Namespace(**vars(options) | {"warm": 4, "steps": 4})
    one(first, *made_up(8 * options.batch, 2 * options.pool, words), "device", device=device)  # programs get compiled
    for labels in options.labels:
        started = time.perf_counter()
        if started - begun > options.seconds:
            break
        data, tokens = made_up(options.documents, labels, words)
        made = time.perf_counter() - started
        for place in options.places:
            started = time.perf_counter()
            facts = {"section": "label memory", "recipe": "unidec", "labels": labels, "place": place}
            if started - begun > options.seconds:
                say(**facts, skipped="time limit")
                continue
            try:
                found = one(options, data, tokens, place, device=device)
                say(**facts, **found, data_s=round(made, 2), seconds=round(time.perf_counter() - started, 2))
            except Exception:
                say(**facts, error=traceback.format_exc()[-1500:])
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
    say(section="same bits", **same_bits(max(options.labels[0], options.pool), options.pool, device))
    say(section="done", seconds=round(time.perf_counter() - begun, 1))


if __name__ == "__main__":
    main()
