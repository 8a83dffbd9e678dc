"""Which labels deserve a score?

| file | answer |
|---|---|
| `everything.py` | all of them |
| `descend.py` | the children of the best nodes above |
| `ann.py` | those in the lists of label vectors nearest to a text's |
| `graph.py` | those a walk over a graph of near label vectors leads to |
"""
