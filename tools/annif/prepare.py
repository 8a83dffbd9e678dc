"""Annif's files: a vocabulary, training texts, a project, the tokenizer's data, and the trained project."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from treetop.core.dataset import Dataset
from treetop.core.log import logger
from treetop.data.formats.skos import to_uri

PROJECT = "tfidf"
VOCABULARY = "labels"
CONFIG = f"""[{PROJECT}]
name={PROJECT}
language=en
backend=tfidf
analyzer=snowball(english)
limit=100
vocab={VOCABULARY}
"""
# NLTK's tokenizer wants data that PyPI does not have; the same algorithm learns them from the titles.
TOKENIZER = """
import sys
from pathlib import Path
from nltk.tokenize.punkt import PunktTrainer, save_punkt_params
texts, folder = map(Path, sys.argv[1:])
trainer = PunktTrainer()
with texts.open(encoding="utf-8") as lines:
    trainer.train("\\n".join(line.partition("\\t")[0] for _, line in zip(range(20_000), lines)))
folder.mkdir(parents=True)
save_punkt_params(trainer.get_params(), str(folder))
"""


@dataclass(frozen=True)
class Annif:
    """An installed Annif and the folder of its files."""

    python: Path
    work: Path

    @property
    def environment(self) -> dict[str, str]:
        """Where Annif and NLTK look for their files."""
        return {
            **os.environ, "ANNIF_PROJECTS": str(self.work / "projects.cfg"), "ANNIF_DATADIR": str(self.work / "data"),
            "NLTK_DATA": str(self.work / "nltk"),
        }  # fmt: skip

    def call(self, program: str, *words: str) -> None:
        """Run a program of the environment to its end."""
        command = [str(self.python.parent / program), *words]
        subprocess.run(command, check=True, env=self.environment, cwd=self.work)


def prepare(annif: Annif, data: str) -> None:
    """Train the project on `data` where that has not been done; the last file written says that it has."""
    done = annif.work / "trained"
    if done.exists() and done.read_text(encoding="utf-8") == data:
        return
    annif.work.mkdir(parents=True, exist_ok=True)
    train = Dataset.read(data, "train")
    write_files(annif.work, train)
    punkt = annif.work / "nltk" / "tokenizers" / "punkt_tab" / "english"
    if not punkt.exists():
        annif.call("python", "-c", TOKENIZER, "train.tsv", str(punkt))
    logger.info("annif: training on %s texts", f"{len(train.texts):,}")
    annif.call("annif", "load-vocab", "--force", "--language", "en", VOCABULARY, "labels.tsv")
    annif.call("annif", "train", PROJECT, "train.tsv")
    done.write_text(data, encoding="utf-8")


def write_files(work: Path, train: Dataset) -> None:
    """`labels.tsv`, `train.tsv` and `projects.cfg`, as Annif reads them."""
    uris = [f"<{to_uri(id_)}>" for id_ in train.labels.ids]
    named = zip(uris, train.labels.names, strict=True)
    _write(work / "labels.tsv", (f"{uri}\t{_line(name)}" for uri, name in named))
    rows = (train.Y.indices[start:end] for start, end in zip(train.Y.indptr, train.Y.indptr[1:], strict=False))
    pairs = zip(train.texts, rows, strict=True)
    _write(work / "train.tsv", (f"{_line(text)}\t{' '.join(uris[column] for column in row)}" for text, row in pairs))
    (work / "projects.cfg").write_text(CONFIG, encoding="utf-8")


def _write(file: Path, lines: Iterable[str]) -> None:
    with file.open("w", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in lines)


def _line(text: str) -> str:
    return " ".join(text.split())
