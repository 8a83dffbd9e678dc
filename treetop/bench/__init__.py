"""The honest comparison: the same matrices and threads for every system, one record per run, tables made from records.

| file | does |
|---|---|
| `methods` | what is compared: systems, their settings, the data sets each runs on |
| `environments` | one environment per peer under `peers/` |
| `matrices` | the same sparse matrices for all, from texts or from the generator in `synthetic` |
| `peers` | runs (data set, method, repetition) cells, interleaved, each in processes of its own |
| `scores` | one evaluator for every system's answers |
| `recipe`, `variants` | one recipe on one data set; XR-Linear with one choice changed at a time |
| `record` | what a result must say about itself: command, versions, seed, commit, machine |
| `tables` | Markdown tables in the documentation, generated from the records (`markdown`: how they look) |
| `runs` | tables of trainings on a GPU |
| `pairs` | recipes without and with Gandalf side by side, as tables |
| `figures` | figures in the documentation, drawn from the records (`drawing`: plain SVG) |
| `pages` | documentation made from the code: commands, recipes, augmentations |
| `generated` | which of these files are out of date, and writing them |
| `adapters/` | scripts that run inside the environment of a peer; they do not import treetop |
"""
