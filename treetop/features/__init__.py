"""How does a text become numbers?

Features learn from texts once and then give lazy named views of any batch: a sparse matrix, a dense array or token
sequences, one row per document.

| answer  | views   | file       |
|---------|---------|------------|
| `tfidf` | `tfidf` | `tfidf.py` |
| `transformer` | `encoder/cls:-1` and the like | `transformer.py` |
| `fuse` | those of both, and joined: `fused`, `embedding` | `fuse.py` |
| `towers` | `encoder/dual`, `encoder/classifier`, `encoder/search` | `towers.py` |

`grams.py` holds what `tfidf` counts (words, characters and their neighbours), `views.py` the lazy mapping.
`sources.py` finds encoders, `tokens.py` turns texts into token ids once, `encoder.py` runs packed sequences.
"""
