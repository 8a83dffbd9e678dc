"""Where stages are wired into trainings that several recipes share.

| file | wires |
|---|---|
| `view.py` | texts, or ready-made features, into the sparse matrix a recipe trains on |
"""
