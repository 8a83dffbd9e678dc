"""Which settings of a recipe serve given data best: successive halving on growing samples.

| file | answer |
|---|---|
| `space.py` | which settings are tried |
| `tries.py` | what was tried, kept in a file so that an interrupted search goes on |
| `halving.py` | how many are tried on how many documents, and which is best |
"""
