"""What is a wrong score worth? One file per loss; each gives one value per row over (row, candidate) pairs.

| name | for | file |
|---|---|---|
| `bce`, `squared_hinge` | labels judged one by one | `bce.py`, `squared_hinge.py` |
| `supcon`, `decoupled`, `balanced`, `infonce` | labels that compete (softmax) | one file each |
| `triplet`, `kprob` | the hardest negatives alone | `triplet.py`, `kprob.py` |
| `soft_topk` | places in the first k | `soft_topk.py` |

A loss is a function `loss(pairs, config) -> (rows,) values`, found by name (`core/registry.py`, question `loss`).
"""
