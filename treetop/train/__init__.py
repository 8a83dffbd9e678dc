"""One gradient loop for every recipe: it receives `step(batch) -> loss` and knows nothing of XMC.

| file | answer |
|---|---|
| `task.py` | what is trained, how long, what is reported |
| `loop.py` | batches, backward, update, memory that runs out, NaN |
| `epochs.py` | the end of an epoch: validation, early stop |
| `state.py` | weights, averages and numbers that a checkpoint keeps |
| `replay.py` | steps recorded on a GPU and launched as one |
| `journal.py` | loss, tokens per second, memory, time left, as JSON lines |
| `batches.py` | which rows come when; token sequences and targets gathered on the device without waiting for it |
| `optim.py` | AdamW with float32 masters, groups, schedules, clipping |
| `weight_average.py` | running averages of weights |
| `checkpoint.py` | state that survives `kill -9` |
"""
