"""Which labels does a row score while training?

| name | candidates | file |
|---|---|---|
| everything | all labels or nodes | `everything.py` |
| below | the children of the best nodes of the head above, true ones first (teacher forcing) | `below.py` |
| given | the children of nodes, or the labels, named for each row before training | `given.py` |

`choose(known, message, above)` gives `Chosen`: ids as a rectangle with -1 as padding, and the position of each positive
in it. Because candidates come as whole clusters or in a known order, that is arithmetic, not a search.
"""
