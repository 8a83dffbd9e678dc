"""What else can be learned from? Augmentations are written before a recipe's name: `gandalf+lightxml`.

| file | answer | hook |
|---|---|---|
| `gandalf.py` | label texts, with the labels that go with theirs as soft targets | rows |
| `identity.py` | label texts, with their own label | rows |
| `random_walk.py` | label texts, with the labels a random walk from theirs visits | rows |
| `glas.py` | a label graph that label vectors should follow, or soft targets from it | penalty or rows |
| `synonym.py` | texts with some words replaced | rows |
| `mixup.py` | mixtures of two texts of a batch | mix |
| `label_mixup.py` | mixtures of a text with the text of one of its labels | mix |

An answer is a module with `NAME`, a frozen `Config`, `needs(config)` (what a recipe must have a place for, see
`compose.py`) and `OFFERS`, which names its functions (`offers.py`). `label_texts.py` is what the four share whose rows
are label texts. Trees, frequencies, propensities and evaluation see the documents alone.
"""
