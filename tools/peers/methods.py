"""What is compared: every method with its environment, its adapter and the settings it gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treetop.core.errors import choose

ADAPTERS = Path(__file__).parent / "adapters"
BIG = ("finna-yso-en-25k", "wordnet-taxonomy", "metamath-premises-30k")
SMALL = ("bibtex-bow", "reuters21578-modapte")
SYNTHETIC = "synthetic-670k"
SCALE = ("synthetic-10k", "synthetic-100k", "synthetic-1m")  # run on request: how cost grows with labels
ALL = (*BIG, *SMALL, SYNTHETIC, *SCALE)
TOPK = 20  # kept per document, so that a filter can take some out and ten are left


@dataclass(frozen=True)
class Method:
    """A row of the comparison; `environment` None means our own interpreter."""

    name: str
    environment: str | None
    adapter: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    datasets: tuple[str, ...] = BIG + SMALL
    once: bool = False  # slow peers and blends of trees (whose single tree is repeated) run in the first only
    rival: str = ""  # the peer a method of ours runs right behind and is compared with


# The tree shape, C, threshold and beam that PECOS and XR-Linear of treetop share.
SHAPE = {"nr_splits": 16, "max_leaf": 100, "threshold": 0.1, "beam": 10, "topk": TOPK}


def _pecos(name: str, **more: Any) -> Method:
    settings = {**SHAPE, "Cp": 1.0, "Cn": 1.0, "negatives": "tfn", **more}
    return Method(name, "libpecos", ADAPTERS / "pecos_run.py", settings, ALL)


def _omikuji(name: str, hyper: Mapping[str, Any], datasets: tuple[str, ...] = BIG + SMALL) -> Method:
    settings = {"hyper": dict(hyper), "beam": 10, "topk": TOPK}
    return Method(name, "omikuji", ADAPTERS / "omikuji_run.py", settings, datasets, once=hyper["n_trees"] > 1)


def _libmultilabel(name: str, kind: str, datasets: tuple[str, ...]) -> Method:
    settings = {"kind": kind, "options": "-s 1 -B 1 -e 0.1", "topk": TOPK}
    return Method(name, "libmultilabel", ADAPTERS / "libmultilabel_run.py", settings, datasets, once=True)


def _treetop(name: str, rival: str, config: Mapping[str, Any], datasets: tuple[str, ...] = BIG + SMALL) -> Method:
    recipe = name.removeprefix("treetop-").partition("-")[0]
    settings = {"recipe": recipe, "config": dict(config), "topk": TOPK}
    once = {method.name: method.once for method in PEERS}[rival]
    return Method(name, None, ADAPTERS / "treetop_run.py", settings, datasets, once=once, rival=rival)


BONSAI = {"cluster_balanced": False, "cluster_k": 100, "max_depth": 3}

PEERS = (
    _pecos("pecos"),
    _pecos("pecos-man", negatives="tfn+man", Cp=4.0),
    _omikuji("omikuji-1", {"n_trees": 1}, (*BIG, *SMALL, SYNTHETIC)),
    _omikuji("omikuji-3", {"n_trees": 3}),
    _omikuji("omikuji-bonsai-1", {"n_trees": 1, **BONSAI}),
    _omikuji("omikuji-bonsai-3", {"n_trees": 3, **BONSAI}),
    Method("napkinxc-plt", "napkinxc", ADAPTERS / "napkinxc_run.py", {"kind": "plt", "hyper": {}, "topk": TOPK}),
    _libmultilabel("libmultilabel-tree", "tree", ("wordnet-taxonomy", "reuters21578-modapte")),
    # Its one-vs-rest weights are one dense float64 array: features x labels of wordnet would not fit the memory.
    _libmultilabel("libmultilabel-1vsrest", "1vsrest", ("reuters21578-modapte",)),
)

# PECOS looks for negatives with the beam it predicts with, so ours does too.
MAN = {"negatives": "tfn+man", "cost_positive": 4.0, "train_beam": 10}

OURS = (
    _treetop("treetop-xr_linear", "pecos", {}, ALL),
    _treetop("treetop-xr_linear-man", "pecos-man", {"linear": MAN}, ALL),
    _treetop("treetop-parabel-1", "omikuji-1", {"trees": 1}, (*BIG, *SMALL, SYNTHETIC)),
    _treetop("treetop-parabel-3", "omikuji-3", {"trees": 3}),
    _treetop("treetop-bonsai-1", "omikuji-bonsai-1", {"trees": 1}),
    _treetop("treetop-bonsai-3", "omikuji-bonsai-3", {"trees": 3}),
    _treetop("treetop-extremetext", "napkinxc-plt", {}),
    _treetop("treetop-dismec", "libmultilabel-1vsrest", {}),
)


def select(names: list[str] | None) -> list[Method]:
    """Methods by name ('peers' and 'treetop' stand for groups), ours right behind the peer they are compared with."""
    known = {method.name: method for method in (*PEERS, *OURS)}
    wanted: list[str] = []
    for name in names or ["peers", "treetop"]:
        group = {"peers": PEERS, "treetop": OURS}.get(name)
        if group is None:
            wanted.append(choose("method", name, [*known, "peers", "treetop"]))
        else:
            wanted += [method.name for method in group]
    place = {method.name: i for i, method in enumerate(PEERS)}
    found = [known[name] for name in dict.fromkeys(wanted)]
    return sorted(found, key=lambda method: (place[method.rival or method.name], bool(method.rival)))
