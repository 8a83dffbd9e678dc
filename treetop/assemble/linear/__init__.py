"""Trainings of linear rankers: trees, ensembles, one-vs-all, a level on concatenated features."""
