"""How does a text become numbers?

Features learn from texts once and then give lazy named views of any batch: a sparse matrix, a dense array or token
sequences, one row per document.

| answer  | views   | file       |
|---------|---------|------------|
| `tfidf` | `tfidf` | `tfidf/tfidf.py` |
| `transformer` | `encoder/cls:-1` and the like | `encoder/transformer.py` |
| `fuse` | those of both, and joined: `fused`, `embedding` | `concatenate.py` |
| `words` | `words/meta`, `words/extreme`; of bags `words/coarse`, `/fine`, `/near` or `/document` | `words/words.py` |
| `apart` | those of others, a name before them: `model-2/tfidf` | `namespaced.py` |
| `towers` | `encoder/dual`, `encoder/classifier`, `encoder/search` | `encoder/towers.py` |

`tfidf/grams.py` holds what `tfidf` counts (words, characters and their neighbours), `views.py` the lazy mapping.
`words/inception.py` and `words/bag.py` are networks over word vectors, `words/layers.py` what they are made of,
`words/vectors.py` finds the vectors to start from; `learned.py` is what they share with transformers.
`encoder/sources.py` finds encoders, `encoder/files.py` and `encoder/tokenizer_file.py` check those of strangers,
`encoder/tokens.py` turns texts into token ids once, `encoder/encoder.py` runs packed sequences;
`encoder/quick_layers.py` and `encoder/packed_linear.py` are its layers for prediction on a CPU.
"""
