"""How do scores of several sources become one?

A source is one or several members whose scores are averaged as trained (the trees of an ensemble): a head of a dual
encoder, a network, a linear tree, a blended model. Its weight is learned on documents held out of training
(`assemble/held_out/`).

| file | answer |
|---|---|
| `fuse.py` | sources to one ranking |
| `pairs.py` | (before any of it) what each source says of every label that one of them returned |
| `logistic.py` | a logistic model over the sources' log odds, with non-negative weights |
| `boosted.py` | boosted trees, monotone in every score |
| `rarity.py` | (after it) how much rare labels are lifted, by the ranking that was asked for |
"""
