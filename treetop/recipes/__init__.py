"""One file per method: docstring, frozen `Config`, `forecast(dataset, config)`, `fit(dataset, config, job) -> Model`.

Recipes wire stages and import no other recipe; `GROUP` is the group a recipe is listed in, and `HOOKS` are the hooks it
offers to augmentations (`augment/compose.py`).
"""
