"""Whether the nodes of a cluster will do: without the same code and libraries on all of them results would differ."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from treetop.core.errors import ResourceError, WorkError
from treetop.core.forecast import size
from treetop.core.log import logger
from treetop.core.version import VERSION

T = TypeVar("T")
LIBRARIES = ("numpy", "numba", "llvmlite", "scipy")  # what compiled code and its results depend on
PATIENCE = 90.0  # seconds until a node that does not answer is named


class Node(NamedTuple):
    """A node of the cluster: its cores, and the bytes of its object store."""

    id: str
    name: str
    cores: int
    store: float


class Facts(NamedTuple):
    """What must be the same on all nodes; processors may differ, which is worth a warning."""

    treetop: str
    code: str
    libraries: Mapping[str, str]
    processor: str


@cache
def code() -> str:
    """A hash of every Python file of this package."""
    digest, root = hashlib.sha256(), Path(__file__).parent.parent.parent
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def facts() -> Facts:
    """The facts of this machine."""
    return Facts(VERSION, code(), {name: importlib.metadata.version(name) for name in LIBRARIES}, _processor())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def _question() -> Callable[[], Any]:
    """Asks a node for its facts; being a function within a function it travels as code, and needs no treetop there."""

    def ask() -> Any:
        try:
            from treetop.core.executor import nodes
        except ImportError as error:
            return str(error)
        return tuple(nodes.facts())

    return ask


def alive(ray: Any) -> list[Node]:
    """The nodes that have cores to offer."""
    found = [
        Node(
            node["NodeID"],
            node["NodeManagerAddress"],
            int(node["Resources"].get("CPU", 0)),
            float(node["Resources"].get("object_store_memory", 0)),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]
    return [node for node in found if node.cores > 0]


def check_nodes(ray: Any) -> list[Node]:
    """The nodes of the cluster; a sentence where one cannot take part."""
    nodes = alive(ray)
    if not nodes:
        raise WorkError(
            "--cluster: no node of the cluster offers a core. Start Ray on one with: ray start --num-cpus 8"
        )
    mine = facts()
    for node, answer in zip(nodes, ask_each(ray, nodes, _question()), strict=True):
        check_node(node.name, answer, mine)
    return nodes


def ask_each(ray: Any, nodes: Sequence[Node], question: Callable[..., T], *given: Any) -> list[T]:
    """What `question(*given)` returns on every node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ask = ray.remote(num_cpus=0, max_retries=0)(question)
    asked = [
        ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False)).remote(*given)
        for node in nodes
    ]
    return [_answered(ray, node, answer) for node, answer in zip(nodes, asked, strict=True)]


def _answered(ray: Any, node: Node, answer: Any) -> Any:
    try:
        return ray.get(answer, timeout=PATIENCE)
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise WorkError(
            f"--cluster: node {node.name} does not start a process ({reason}). See the logs of Ray there, or take it "
            "out of the cluster."
        ) from None


def check_node(name: str, answer: Any, mine: Facts) -> None:
    """Refuse a node without treetop, with another version of it, or with other libraries."""
    if isinstance(answer, str):
        raise WorkError(
            f"--cluster: node {name} has no treetop ({answer}). Install treetop {mine.treetop} in the Python that runs "
            "Ray there."
        )
    theirs = Facts(*answer)
    if theirs.treetop != mine.treetop:
        raise WorkError(
            f"--cluster: node {name} has treetop {theirs.treetop}, this machine {mine.treetop}. Install the same "
            "version on all machines."
        )
    if theirs.code != mine.code:
        raise WorkError(
            f"--cluster: the code of treetop on node {name} differs from the code here, though both are "
            f"{mine.treetop}. Install the same code on all machines."
        )
    for library, version in mine.libraries.items():
        if theirs.libraries.get(library) != version:
            raise WorkError(
                f"--cluster: node {name} has {library} {theirs.libraries.get(library)}, this machine {version}, so "
                "results could differ. Install the same version on all machines."
            )
    if theirs.processor != mine.processor:
        logger.warning(
            "node %s has another processor (%s, here %s): the last digits of scores may depend on where a shard runs",
            name,
            theirs.processor,
            mine.processor,
        )


def check_store(nodes: list[Node], needed: float, what: str) -> None:
    """Refuse to share more than the smallest object store of a node holds."""
    least = min(nodes, key=lambda node: node.store)
    if needed > least.store:
        raise ResourceError(
            f"--cluster: {what} need about {size(needed)} on every node, and the object store of node {least.name} "
            f"holds {size(least.store)}. Start Ray there with --object-store-memory={int(1.3 * needed)}, or leave the "
            "node out."
        )
