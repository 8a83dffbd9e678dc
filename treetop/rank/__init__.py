"""How good is each candidate?

| file | answer |
|---|---|
| `popular.py` | as often as the label occurs in training |
| `neighbours.py` | by the labels of the nearest training texts |
"""
