"""Which labels deserve a score?

| file | answer |
|---|---|
| `everything.py` | all of them |
| `descend.py` | the children of the best nodes above |
"""
