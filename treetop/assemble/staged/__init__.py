"""Training in stages: an encoder is fine-tuned level by level, coarse to fine."""
