"""Which rows and labels meet in a step?

Rows in a random order are `train/batches.py`. The others:

| file | sampler |
|---|---|
| `mix.py` | each row mixed with a partner: another row of the batch (MixUp), or the text of one of its labels |
| `pools.py` | a pool of labels all rows of a batch share: positives, hard negatives, what counts for nothing |
| `clustered.py` | similar rows with such a pool; clusters and hard negatives mined every few epochs |

Whatever is drawn is a function of (seed, step), so that a resumed run draws the same.
"""
