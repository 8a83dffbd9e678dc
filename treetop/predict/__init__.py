"""How are levels and members combined?

| file | answer |
|---|---|
| `beam.py` | one member: level by level, keeping the best of each |
| `chain.py` | (before any of it) whether the levels fit together |
| `blend.py` | several members: average, rank average, softmax average |
| `overlay.py` | labels added, retired and merged after training |
"""
