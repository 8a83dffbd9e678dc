"""Why this label?

| file | answer |
|---|---|
| `path.py` | through which nodes of the tree, with which scores |
| `words.py` | by which words, adding up to the margin of each level |
"""
