"""Torch helpers shared by features and training: devices, packed sequences, transfer of arrays.

| file | answer |
|---|---|
| `devices.py` | where it runs: the device, its number type and memory, the processes that share the work |
| `packed.py` | token sequences end to end, gathered on the device without waiting for it |
| `handover.py` | arrays to the device and back |
| `warmup.py` | GPU programs compiled while texts are read |
"""
