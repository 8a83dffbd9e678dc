"""Torch helpers shared by features, ranks and training: devices, packed sequences, label vectors, transfer of arrays.

| file | answer |
|---|---|
| `devices.py` | where it runs: the device, its number type and memory, the processes that share the work |
| `packed.py` | token sequences end to end, gathered on the device without waiting for it |
| `rows.py` | dense views that stay on the device |
| `label_table.py` | label vectors there: scores of all labels and the best of each text |
| `handover.py` | arrays to the device and back |
| `warmup.py` | GPU programs compiled while texts are read |
"""
