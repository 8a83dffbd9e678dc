"""Why a plain loop scores higher: starts, scales and losses of the full classifier, each beside the other.

    python benchmarks/gpu/tries.py --data build/gpu --runs RUNS.json --out results.jsonl

Scores are of rows held out from train. `plain` in a run takes transformers' own model and kept logits instead.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from pathlib import Path
from typing import Any

import engine
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from treetop.evaluate.match import hits
from treetop.evaluate.propensity import inverse_propensity
from treetop.network.network import Network
from treetop.tensors.packed import TokenRows
from treetop.train.batches import Plan, split_off
from treetop.train.loop import train
from treetop.train.optim import ScheduleConfig
from treetop.train.task import TrainConfig

GPU = engine.GPU


@torch.no_grad()
def vectors(task: Network, store: TokenRows, rows: np.ndarray, scale: float) -> Tensor:
    task.inputs.encoder.eval()
    made = []
    for i in range(0, len(rows), 2048):
        found = task.inputs.encoder(store.gather(rows[i : i + 2048]), task.inputs.poolings)
        made.append(next(iter(found.values())).float())
    h = torch.cat(made)
    return scale * F.normalize(h, dim=1) if scale else h


@torch.no_grad()
def begin(task: Network, data: engine.Data, args: dict[str, Any], rows: np.ndarray) -> None:
    """Fill the table as `start` says."""
    kind = args.get("start", "zero")
    full, scale = engine.full(task), args.get("l2", 0.0)
    prior = full.bias.clone()
    if kind == "random":
        torch.manual_seed(args.get("seed", 0))
        full.init((torch.rand(full.n, full.width, device=GPU) * 2 - 1) * full.width**-0.5)
        return
    if kind == "zero":
        return
    Y = data.parts["train"][2]
    H = vectors(task, data.store("train"), rows, scale)
    centre = H.mean(0)
    spread = (H - centre).norm(dim=1).mean()
    V = torch.zeros(full.n, full.width, device=GPU)
    if kind in ("text", "both"):
        T = vectors(task, TokenRows(data.labels.ids, data.labels.offsets, GPU), np.arange(full.n), scale)
        V += F.normalize(T - T.mean(0), dim=1)
    if kind in ("mean", "both"):
        A = Y[rows].T.tocsr()
        csr = torch.sparse_csr_tensor(
            torch.from_numpy(A.indptr.astype(np.int64)), torch.from_numpy(A.indices.astype(np.int64)),
            torch.from_numpy(A.data), A.shape, device=GPU,
        )  # fmt: skip
        count = torch.from_numpy(np.asarray(A.sum(1)).ravel()).to(GPU)[:, None]
        V += F.normalize((csr @ (H - centre)) / (count + 1e-9), dim=1)
    W = args.get("size", 10.0) * F.normalize(V, dim=1) / spread
    full.init(W, prior - W @ centre)


def one(data: engine.Data, args: dict[str, Any], look: bool) -> None:
    n = data.parts["train"][2].shape[0]
    rows, held_out = split_off(np.arange(n), min(0.5, 12_000 / n), 0, at_most=12_000)
    if look:
        rows, held_out = np.arange(n), held_out[:0]
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    task = engine.make_task(data, args, held_out)
    begin(task, data, args, rows)
    score = lambda: score_of(task, data, held_out, look)  # noqa: E731
    before = score() if args.get("before") else {}
    config = TrainConfig(
        epochs=args.get("epochs", 6), batch_size=args.get("batch", 1024), clip_norm=args.get("clip", 0.0),
        schedule=ScheduleConfig(
            kind=args.get("schedule", "linear"), warmup=args.get("warmup", 0.05), anneal=args.get("anneal", 0.0)
        ),
        average=args.get("average", "none"), ema_decay=args.get("ema", 0.99),
    )  # fmt: skip
    task.watched = None
    plan = Plan(rows, config.batch_size, args.get("seed", 0), args.get("order", "random"), task.inputs.store.lengths)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    result = train(task, plan, config)
    torch.cuda.synchronize()
    ended = time.perf_counter()
    engine.say(
        section="tries", on="test" if look else "held-out", **args, start_s=begun - started, seconds=ended - begun,
        **score(), untrained=before, tokens_per_s=result.tokens / (ended - begun), loss=result.loss,
        memory=result.memory,
    )  # fmt: skip


def score_of(task: Network, data: engine.Data, held_out: np.ndarray, look: bool) -> dict[str, float]:
    for module, _ in task.modules.values():
        module.eval()
    Y = data.parts["train"][2]
    if not look:
        return tops(task, held_out, Y, Y)
    mine, task.inputs.store = task.inputs.store, data.store("test")
    T = data.parts["test"][2]
    made = tops(task, np.arange(T.shape[0]), T, Y)
    task.inputs.store = mine
    return made


def tops(task: Network, rows: np.ndarray, Y: Any, train: Any) -> dict[str, float]:
    """Precision and propensity-scored precision of the best labels."""
    top = np.concatenate([task.top_labels(rows[i : i + 2048], 5) for i in range(0, len(rows), 2048)])
    return measures(top, Y[rows], train)


def measures(top: np.ndarray, held: Any, train: Any) -> dict[str, float]:
    counts = np.asarray((train > 0).sum(0)).ravel()
    inverse, hit = inverse_propensity(counts, train.shape[0], 0.55, 1.5), hits(top, held)
    best = np.zeros((held.shape[0], 5))
    for i in range(held.shape[0]):
        own = np.sort(inverse[held.indices[held.indptr[i] : held.indptr[i + 1]]])[::-1][:5]
        best[i, : len(own)] = own
    made = {f"P@{k}": round(100 * float(hit[:, :k].mean()), 2) for k in (1, 3, 5)}
    gain = np.where(hit, inverse[top], 0.0)
    return made | {f"PSP@{k}": round(100 * gain[:, :k].sum() / best[:, :k].sum(), 2) for k in (1, 5)}


def plain(data: engine.Data, args: dict[str, Any], look: bool) -> None:
    """transformers' model under autocast, padded batches, float32 logits kept, torch's own AdamW."""
    import transformers

    n = data.parts["train"][2].shape[0]
    rows, held_out = split_off(np.arange(n), min(0.5, 12_000 / n), 0, at_most=12_000)
    ids, offsets, Y = data.parts["train"]
    model = transformers.AutoModel.from_pretrained(data.folder, dtype=torch.float32, attn_implementation="sdpa").to(GPU)
    model.pooler = None
    torch.manual_seed(0)
    head = torch.nn.Linear(384, data.n_labels, device=GPU)
    if args.get("prior"):
        torch.nn.init.zeros_(head.weight)
        prior = np.log((np.asarray(Y.sum(0)).ravel() + 0.5) / (Y.shape[0] + 1.0)).astype(np.float32)
        head.bias.data.copy_(torch.from_numpy(prior))
    optimiser = torch.optim.AdamW(
        [{"params": model.parameters(), "lr": args["lr"]}, {"params": head.parameters(), "lr": args["head_lr"]}],
        weight_decay=0.01, fused=True,
    )  # fmt: skip
    plan = Plan(rows, 1024, 0, "length", np.diff(offsets))
    total = args["epochs"] * plan.steps
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda s: min((s + 1) / (0.05 * total), (total - s) / (0.95 * total))
    )

    def encode(batch: np.ndarray) -> Tensor:
        lengths = np.diff(offsets)[batch]
        wide = np.zeros((len(batch), lengths.max()), np.int64)
        mask = np.arange(lengths.max())[None] < lengths[:, None]
        wide[mask] = np.concatenate([ids[offsets[i] : offsets[i + 1]] for i in batch])
        m = torch.from_numpy(mask).to(GPU)
        with torch.autocast("cuda", torch.bfloat16):
            h = model(input_ids=torch.from_numpy(wide).to(GPU), attention_mask=m.long()).last_hidden_state
        h = (h.float() * m[..., None]).sum(1) / m.sum(1, keepdim=True)
        return F.dropout(h, 0.1, model.training)

    model.train()
    started = time.perf_counter()
    for batch in plan.walk(0, total):
        y = torch.zeros(len(batch.rows), data.n_labels, device=GPU)
        part = Y[batch.rows]
        place = np.repeat(np.arange(len(batch.rows)), np.diff(part.indptr))
        y[torch.from_numpy(place).to(GPU), torch.from_numpy(part.indices).long().to(GPU)] = 1.0
        h = encode(batch.rows)
        with torch.autocast("cuda", torch.bfloat16):
            z = head(h)
        loss = F.binary_cross_entropy_with_logits(z.float(), y, reduction="sum") / len(y)
        (loss / data.n_labels if args.get("reduce") == "mean" else loss).backward()
        optimiser.step()
        optimiser.zero_grad()
        scheduler.step()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    model.eval()
    with torch.no_grad():
        parts = [encode(held_out[i : i + 2048]) for i in range(0, len(held_out), 2048)]
        top = np.concatenate([head(h).topk(5, dim=1).indices.cpu().numpy() for h in parts])
    engine.say(
        section="tries", on="held-out", **args, seconds=seconds, loss=float(loss), **measures(top, Y[held_out], Y)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True, help="JSON list of settings")
    parser.add_argument("--max-length", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=540.0, help="start no run after this")
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    begun = time.perf_counter()
    torch.backends.cuda.matmul.allow_tf32 = True
    data = engine.Data(options.data, options.max_length)
    engine.say(section="machine", gpu=torch.cuda.get_device_name(), torch=torch.__version__)
    for args in json.loads(options.runs.read_text()):
        if time.perf_counter() - begun > options.seconds:
            break
        try:
            (plain if args.get("plain") else one)(data, args, options.test)
        except Exception:
            engine.say(section="tries", **args, error=traceback.format_exc()[-1500:])
        if options.out:
            options.out.write_text("".join(json.dumps(line) + "\n" for line in engine.OUT))


if __name__ == "__main__":
    main()
