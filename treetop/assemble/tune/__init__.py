"""Which settings of a recipe are best for the data? Successive halving on growing samples.

| file | answer |
|---|---|
| `space.py` | which settings are tried |
| `tries.py` | what was tried, in a file from which an interrupted search is resumed |
| `halving.py` | how many are tried on how many documents, and which is best |
"""
