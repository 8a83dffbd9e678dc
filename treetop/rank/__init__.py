"""How good is each candidate?

| file | answer |
|---|---|
| `popular.py` | as often as the label occurs in training |
| `neighbours.py` | by the labels of the nearest training texts |
| `linear.py` | by a linear function over a sparse view, siblings scored together |
| `head.py` | inner product of a dense view with one vector per label |
| `added.py` | the same over labels that were added after training |
| `dual.py` | inner product of a search vector with vectors of label texts, learned ones, or both |
| `fusion.py` | both of these, weighed by a small decision tree |

`text_map.py` predicts the vector of a label from its text.
"""
