"""Why this label?

| file | answer |
|---|---|
| `explanation.py` | the shape of an answer, the same for every recipe and for JSON |
| `path.py` | through which nodes of the tree, with which margins and scores |
| `words.py` | by which words, adding up to the margin of each level; how a text is marked with them |
| `below.py` | what lies below a node: the most frequent labels |
"""
