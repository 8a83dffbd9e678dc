"""The peers' benchmark: the same matrices and threads for every system, one record per run. `python -m tools.peers`.

| file | does |
|---|---|
| `methods` | what is compared: systems, their settings, the data sets each runs on |
| `environments` | one environment per peer under `peers/` |
| `matrices` | the same sparse matrices for all, from texts or from the generator in `synthetic` |
| `run` | runs (data set, method, repetition) cells, interleaved, each in processes of its own |
| `scores` | one evaluator for every system's answers |
| `adapters/` | scripts that run inside the environment of a peer; they do not import treetop |
"""
