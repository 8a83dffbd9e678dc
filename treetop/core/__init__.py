"""Shared by all: types, errors, configuration, registry, model folder, resumable work, forecast, log.

Layer 0 of the import ladder: imports nothing else of treetop.
"""
