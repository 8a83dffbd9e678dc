"""Which training texts are most like this one?

| file | answer |
|---|---|
| `kept.py` | the training texts with their labels, as a model keeps them (`documents/` in its folder) |
| `terms.py` | nearest by tf-idf: an inverted index of terms |
| `vectors.py` | nearest by an encoder's vectors, eight bits a value |
"""
