"""One gradient loop for every recipe: it receives `step(batch) -> loss` and knows no XMC word.

| file | answer |
|---|---|
| `loop.py` | batches, backward, update, validation, early stop, memory that runs out, NaN |
| `batches.py` | which rows come when; token sequences and targets gathered on the device without waiting for it |
| `losses.py` | BCE, squared hinge, soft targets, relevance weights over candidates |
| `optim.py` | AdamW with float32 masters, groups, schedules, clipping |
| `rows.py` | tables whose rows are gathered, scored and updated at a cost that follows the candidates |
| `shortlists.py` | negatives from the level above, teacher forcing |
| `average.py` | running averages of weights |
| `checkpoint.py` | state that survives `kill -9` |
| `devices.py` | where it runs: device, memory, several processes |
"""
