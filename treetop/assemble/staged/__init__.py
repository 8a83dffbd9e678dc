"""Trainings in stages: an encoder fine-tuned coarse to fine."""
