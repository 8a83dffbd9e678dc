"""How is a label described?

| file | answer |
|---|---|
| `pifa.py` | by the features of its training texts |
| `text.py` | by its own text |
| `graph.py` | by the labels it shares texts with |
| `combine.py` | by both, side by side or mixed |

A description is a function of a `Source` (`source.py`), found by name (`core/registry.py`, question `labels`).
"""
