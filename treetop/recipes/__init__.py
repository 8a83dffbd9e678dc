"""One file per method: docstring, frozen `Config`, `forecast(dataset, config)`, `fit(dataset, config, job) -> Model`.

Recipes wire stages and import no other recipe; `GROUP` says on which shelf a recipe stands, and
`HOOKS` what it has a place for when augmentations stand before its name (`augment/compose.py`).
"""
