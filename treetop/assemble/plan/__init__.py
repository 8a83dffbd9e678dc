"""What will a job need on machines that are not there yet? Sizes of data, and rates measured once, give an answer.

| file | answer |
|---|---|
| `imagined.py` | data of which only sizes are known, for the recipes' own forecasts |
| `rates.py` | how fast each stage runs on a core: measured here, kept in `rates.json` with the command |
| `outlook.py` | time, memory, network, disk and the cost of predictions |
"""
