"""Where do the shards of a job run?

| file | answer |
|---|---|
| `executor.py` | the contract, and which executor is in use |
| `threads.py` | on threads of this process (`blas.py`: each with one thread of the BLAS) |
| `ray.py` | on the nodes of a Ray cluster (`nodes.py`: whether they will do) |
"""
