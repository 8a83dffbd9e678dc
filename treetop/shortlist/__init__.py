"""Which labels deserve a score?

| file | answer |
|---|---|
| `everything.py` | all of them |
| `descend.py` | the children of the best nodes above |
| `ivf.py` | those in the inverted lists (IVF) nearest to a text's vector |
| `hnsw.py` | those that a search in an HNSW graph of label vectors finds |
"""
