"""Who may import whom: the ladder of docs/architecture.md, read from the source."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import toy
import treetop

ROOT = Path(__file__).parent.parent / "treetop"
STAGES = ["data", "features", "labels", "partition", "shortlist", "rank", "predict", "evaluate", "explain", "documents"]
LAYERS = {"core": 0, "kernels": 1, "tensors": 2, **dict.fromkeys(STAGES, 3), "train": 4, "network": 5}
LAYERS |= dict.fromkeys(["model", "training", "assemble", "augment", "edit", "export", "hub"], 6) | {"recipes": 7}
LAYERS |= dict.fromkeys(["cli", "serve", "sklearn", "bench", "__main__"], 8)
HEAVY = {"torch", "transformers", "faiss", "fastapi", "pydantic"}


def place(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports(file: Path) -> list[tuple[str, int]]:
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return found


def files() -> list[Path]:
    return sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


@pytest.mark.parametrize("file", files(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_go_down_the_ladder(file: Path) -> None:
    here = file.relative_to(ROOT).parts[0].removesuffix(".py")
    assert here in LAYERS, f"{file}: folder '{here}' has no place in the ladder"
    for name, line in imports(file):
        outside = name.split(".")[0] in {"tools", "tests", "benchmarks"}
        assert not outside, f"{file}:{line} imports {name}: not in the wheel"
        if not name.startswith("treetop.") or name == "treetop.__version__":
            continue
        there = place(name)
        where = f"{file.relative_to(ROOT)}:{line} ({here}) imports {name}"
        if there == here:
            is_recipe = here == "recipes" and name.count(".") > 1
            assert not is_recipe, f"{where}: recipes do not import recipes"
            continue
        assert there in LAYERS, f"{where}: unknown place"
        assert LAYERS[there] <= LAYERS[here], f"{where}: layer {LAYERS[there]} is above layer {LAYERS[here]}"
        assert not (here in STAGES and there in STAGES), f"{where}: stages do not import other stages"


def probes(file: Path) -> list[int]:
    """Lines that ask an object whether it has something: `hasattr`, or `getattr` with a default."""
    calls = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    named = [(call.func.id, call) for call in calls if isinstance(call.func, ast.Name)]
    return [c.lineno for name, c in named if name == "hasattr" or (name == "getattr" and len(c.args) > 2)]


def test_abilities_are_declared_and_not_probed_for() -> None:
    foreign = {"data", "features"}  # these look into objects of other libraries
    places = [
        *(stage for stage in STAGES if stage not in foreign),
        "train",
        "network",
        "assemble",
        "augment",
        "recipes",
    ]
    checked = [file for file in files() if file.relative_to(ROOT).parts[0] in places]
    checked += [ROOT / "training.py", ROOT / "features" / "namespaced.py"]
    assert not {file: found for file in checked if (found := probes(file))}, "see core/abilities.py"


def test_every_stage_says_its_question() -> None:
    for stage in STAGES:
        text = (ROOT / stage / "__init__.py").read_text(encoding="utf-8")
        assert "?" in text.split('"""')[1], f"{stage}/__init__.py must start with the question it answers"


def test_only_encoder_files_import_torch_at_the_top() -> None:
    for file in files():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in tree.body:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name.split(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module.split(".")[0]]
            here = file.relative_to(ROOT).parts[0]
            if here in {"core", "data", "cli", "evaluate", "predict"}:
                assert not HEAVY & set(names), f"{file}:{node.lineno} imports {names}"


PREDICT = """
import sys
from treetop.model import load
for folder in sys.argv[1:]:
    assert load(folder).predict("cat and dogs", k=3)[0]
print(*(name for name in sys.modules if name.split(".")[:2] in (["treetop", "train"], ["treetop", "network"])))
"""


def test_predicting_imports_no_training(encoder: str, tmp_path: Path) -> None:
    quick = {"encoder": {"model": encoder, "max_length": 32}, "train": {"epochs": 1.0, "batch_size": 32}}
    folders = [tmp_path / recipe for recipe in ("lightxml", "unidec")]
    for folder in folders:
        treetop.fit(folder.name, toy.dataset(n=40), settings=quick, out=folder)
    done = subprocess.run([sys.executable, "-c", PREDICT, *folders], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
