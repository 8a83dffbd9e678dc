"""What else can be learned from? Augmentations are written before a recipe's name: `gandalf+lightxml`.

| file | answer | hook |
|---|---|---|
| `gandalf.py` | label texts, with co-occurring labels as soft targets | rows |
| `identity.py` | label texts, with their own label | rows |
| `random_walk.py` | label texts, with the labels that a random walk from their own visits | rows |
| `glas.py` | a label graph that label vectors should follow, or soft targets from it | penalty or rows |
| `synonym.py` | texts with some words replaced | rows |
| `mixup.py` | mixtures of two texts of a batch | mix |
| `label_mixup.py` | mixtures of a text with the text of one of its labels | mix |

An answer is a module with `NAME`, a frozen `Config`, `needs(config)` (the hooks that a recipe must have, see
`compose.py`) and `OFFERS`, a table of its functions (`offers.py`). `label_texts.py` is shared by the four whose rows
are label texts. Label trees, frequencies, propensities and evaluation use the documents alone.
"""
