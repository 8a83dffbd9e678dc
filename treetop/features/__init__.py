"""How does a text become numbers?

Features learn from texts once and then give lazy named views of any batch: a sparse matrix, a dense array or token
sequences, one row per document.

| answer  | views   | file       |
|---------|---------|------------|
| `tfidf` | `tfidf` | `tfidf.py` |
| `transformer` | `encoder/cls:-1` and the like | `transformer.py` |
| `fuse` | those of both, and joined: `fused`, `embedding` | `fuse.py` |
| `words` | `words/meta`, `words/extreme`; of bags `words/coarse`, `/fine`, `/near` or `/document` | `words.py` |
| `apart` | those of others, a name before them: `model-2/tfidf` | `apart.py` |
| `towers` | `encoder/dual`, `encoder/classifier`, `encoder/search` | `towers.py` |

`grams.py` holds what `tfidf` counts (words, characters and their neighbours), `views.py` the lazy mapping.
`inception.py` and `bag.py` are networks over word vectors, `word_layers.py` what they are made of, `vectors.py` finds
the vectors to begin with; `learned.py` is what they share with transformers.
`sources.py` finds encoders, `tokens.py` turns texts into token ids once, `encoder.py` runs packed sequences;
`quick_layers.py` and `packed_linear.py` are its layers for prediction on a CPU.
"""
