"""What was measured on clusters, of networks in several processes and of data larger than memory, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools import records
from tools.docs.markdown import MISSING, markdown, text

SAME = {True: "yes", False: "**no**"}


def cluster(results: Path, words: Sequence[str]) -> str:
    """`cluster`: Ray nodes on this machine beside one process."""
    found = records.usable(results / "cluster.jsonl").values()
    rows = [row for row in map(_row, found) if row is not None]
    return markdown(["what", "data", "nodes", "result", "same answers"], sorted(rows), left=4)


def _row(values: records.Record) -> list[str] | None:
    """What one record says, by the first word of its name; None: another table has it."""
    kind, _, _ = values["name"].partition(" ")
    if kind in ("bytes", "namespaces"):
        sent = f", {values['bytes_sent'] / 1e6:,.0f} MB sent" if kind == "namespaces" else ""
        shown = f"{values['seconds_cluster']:.0f} s, one process {values['seconds_threads']:.0f} s{sent}"
        what = "training, a core each" if kind == "bytes" else "training over two network namespaces"
        return [what, values["data"], str(values["nodes"]), shown, SAME[values["same"]]]
    if kind == "kills":
        of_each = ", ".join(f"{count} of a {what}" for what, count in sorted(values["kills"].items()))
        shown = f"{values['trainings']} trainings, {sum(values['kills'].values())} kills ({of_each})"
        same = f"{values['same']} of {values['trainings']}"
        return ["training, killed at random", values["data"], str(values["nodes"]), shown, same]
    if kind == "predict":
        own, mapped = (f"{values[name] / 1e6:,.0f} MB" for name in ("memory_limit", "memory_peak"))
        shown = (
            f"{values['texts']:,} texts in {values['seconds']:,.0f} s, {values['kills']} kills; a process may have "
            f"{own} of its own, with mapped files the largest had {mapped}"
        )
        same = values["rows_differing"] == 0 and values["rows"] == values["texts"]
        return ["batch prediction", values["data"], str(values["nodes"]), shown, SAME[same]]
    return None


def overhead(results: Path, words: Sequence[str]) -> str:
    """`overhead`: the same training by threads and by nodes on the same cores."""
    parts = {
        (values["data"], values["nodes"]): values
        for values in records.usable(results / "cluster.jsonl").values()
        if values["name"].startswith("overhead ")
    }
    rows = []
    for (data, nodes), values in sorted(parts.items()):
        plain = parts.get((data, 0))
        ratio = MISSING if plain is None else f"{values['seconds'] / plain['seconds']:.2f}"
        same = MISSING if plain is None else SAME[values["hash"] == plain["hash"]]
        where = "threads" if nodes == 0 else "1 node" if nodes == 1 else f"{nodes} nodes"
        times = [text(values[name], 0) for name in ("seconds", "cpu_seconds", "seconds_start")]
        rows.append([where, data, ", ".join(values["settings"]) or "as they come", *times, ratio, same])
    head = ["where", "data", "settings", "training, s", "CPU s of the command", "start, s", "÷ threads", "same bytes"]
    return markdown(head, rows, left=3)


def processes(results: Path, words: Sequence[str]) -> str:
    """`processes`: networks in two processes beside one, and the memory of each."""
    rows = []
    for values in records.usable(results / "cluster.jsonl").values():
        if not values["name"].startswith("networks "):
            continue
        memory = [", ".join(f"{mb:,.0f}" for mb in values[f"memory_mb_{name}"]) for name in ("one", "two")]
        if "table_mb" in values:
            what, scores = f"`renee`, {values['labels']:,} labels (table {values['table_mb']:.0f} MB)", [MISSING] * 2
        else:
            what = f"`{values['name'].removeprefix('networks ')}`"
            scores = [", ".join(f"{one['P@1']:.2f} / {one['P@5']:.2f}" for one in values["one"])]
            scores.append(f"{values['two']['P@1']:.2f} / {values['two']['P@5']:.2f}")
        rows.append([what, *scores, *memory])
    head = ["recipe", "one process: P@1 / P@5 of each seed", "two processes", "MB of the one", "MB of each of two"]
    return markdown(head, rows)


def larger(results: Path, words: Sequence[str]) -> str:
    """`larger`: training under a hard limit of memory, and without one."""
    rows = []
    for values in records.usable(results / "larger.jsonl").values():
        free = values.get("free")
        shown = [f"{values['limit'] / 1e9:g} GB", text(values["seconds"], 0), text(values["cpu_s"], 0)]
        shown += [text(values[name], 2) for name in ("peak_gb", "disk_gb", "model_gb")]
        rows.append([values["name"].split()[0], *shown, MISSING if free is None else SAME[values["same_bytes"]]])
        if free is not None:
            without = [text(free[name], digits) for name, digits in (("seconds", 0), ("cpu_s", 0), ("peak_gb", 2))]
            rows.append(
                [values["name"].split()[0], "none", *without, text(free["disk_gb"], 2), text(values["model_gb"], 2), ""]
            )
    head = ["data", "limit", "s", "CPU s", "memory but for copies of files, GB", "disk, GB", "model, GB", "same bytes"]
    return markdown(head, rows)


def planned(results: Path, words: Sequence[str]) -> str:
    """`planned`: what `treetop plan` said beside what training took."""
    rows = []
    for values in records.usable(results / "plan.jsonl").values():
        pairs = [values[name] for name in ("seconds", "memory", "model", "cpu_seconds")]
        rows.append([values["data"], *(f"{pair['fit ÷ plan']:.2f}" for pair in pairs)])
    head = ["data", "time taken ÷ planned", "memory", "model", "CPU seconds"]
    return markdown(head, rows)
