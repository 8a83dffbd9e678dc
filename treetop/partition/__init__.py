"""Which labels belong together?

| file | answer |
|---|---|
| `balanced.py` | equal halves again and again, joined to a tree of the wanted width |
| `kmeans.py` | k groups of any size on each level |
| `tree.py` | how leaves become levels |
| `flat.py` | no groups: one level of labels |

The settings of a partition grow its trees: `config.grow(Z, seed=seed)` (`Partition` of `core/types.py`).
"""
