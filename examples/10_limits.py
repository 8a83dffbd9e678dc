"""Limits: a smaller model, less memory, and a job that is refused before it starts."""

from pathlib import Path

import numpy as np

import treetop
from treetop.core.errors import TreetopError

rows = treetop.Dataset.read("wordnet", "train").take(np.arange(0, 78000, 26))


def size(folder):
    return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / 1e6


treetop.fit("xr_linear", rows, out="large/", overwrite=True, calibrate=False)
treetop.fit("xr_linear", rows, out="small/", overwrite=True, calibrate=False, budget="model=8MB")
print(f"{size('large/'):.1f} MB, {size('small/'):.1f} MB")  # fewer bits, then fewer weights

try:
    treetop.fit("dismec", rows, budget="memory=50MB")
except TreetopError as error:
    print(error)  # what is needed, what is allowed, what to do
