"""Numeric kernels that know nothing of XMC. Each fast one has a slow, plain twin, in `reference.py` or next to it.

| folder | kernels |
|---|---|
| `text/` | texts to hashed terms and tf-idf rows |
| `linear/` | solvers of many linear problems that share their rows |
| `tree/` | one level of a beam search over linear functions in chunks |
| `cluster/` | balanced halves of sparse or dense rows, k-means |
| `graph/` | co-occurrence of labels, random walks |
| `search/` | nearest rows, inner products, the best k |
| `gpu/` | programs that do in one pass what torch does in several |
| `runtime/` | compiling, the cache on disk, threads, prefetching |
| `sparse.py`, `sums.py`, `metrics.py` | sparse rows, weighted sums of them, hits and resampled sums |
"""

from treetop.kernels.runtime.compiler import check_compiler

check_compiler()
