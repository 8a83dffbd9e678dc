"""One gradient loop for every recipe: it receives `step(batch) -> loss` and knows nothing of XMC.

| file | answer |
|---|---|
| `task.py` | what is trained, how long, what is reported |
| `loop.py` | batches, backward, update, validation, early stop, memory that runs out, NaN |
| `replay.py` | steps recorded on a GPU and launched as one |
| `journal.py` | loss, tokens per second, memory, time left, as JSON lines |
| `batches.py` | which rows come when; token sequences and targets gathered on the device without waiting for it |
| `pools.py` | a pool of labels for all texts of a batch: positives, hard negatives, what counts for nothing |
| `clustered.py` | batches of similar texts, clusters and hard negatives mined every few epochs |
| `losses.py` | BCE, squared hinge, soft targets, relevance weights over candidates |
| `contrastive.py` | losses over a pool: which positives count, and against what |
| `optim.py` | AdamW with float32 masters, groups, schedules, clipping |
| `rows.py` | tables whose rows are gathered, scored and updated at a cost that follows the candidates |
| `hooks.py` | what augmentations add to a step: mixed rows, a price on label vectors |
| `shortlists.py` | negatives from the level above, teacher forcing |
| `warmup.py` | GPU programs compiled while texts are read |
| `average.py` | running averages of weights |
| `checkpoint.py` | state that survives `kill -9` |
| `devices.py` | where it runs: device, memory, several processes |
"""
