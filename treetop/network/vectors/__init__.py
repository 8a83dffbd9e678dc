"""What represents a label in training? Vectors and biases that are multiplied with a row's projection.

| name | vectors | file |
|---|---|---|
| `dense` | free, all in every step, updated by the loop (the clusters of a first level) | `dense.py` |
| `rows` | free, gathered and updated only where they are candidates; on the device or its host | `rows.py` |
| `full` | free, all in every step, logits never kept | `full.py` |
| `full_low` | the same at two bytes a number, by plain gradient descent | `full_low.py` |
| `parts` | of the label's text, its neighbours' texts and a free part (DECAF, ECLARE, InceptionXML-LF) | `parts.py` |
| `attention` | a vector that reads a token sequence, and layers that all labels share (AttentionXML) | `attention.py` |

Vectors made by the encoder itself from label texts are read with the batch (`network/pool.py`).
"""
