"""How good is each candidate?

| file | answer |
|---|---|
| `popular.py` | label frequency in training |
| `neighbours.py` | labels of the nearest training texts |
| `linear.py` | linear function of a sparse view, siblings scored together |
| `head.py` | inner product of a dense view with one vector per label |
| `added.py` | the same for labels that were added after training |
| `dual.py` | inner product of a search vector with label-text embeddings, classifier vectors, or both |
| `fusion.py` | both, joined by a small decision tree (NGAME) |

`text_map.py` predicts the vector of a label from its text.
"""
