"""Where stages are wired into trainings that several recipes share.

| file | wires |
|---|---|
| `view.py` | texts, or precomputed features, into the sparse matrix a recipe trains on |
| `label_tree.py`, `label_graph.py` | a description of the labels into a tree; texts they share into a graph |
| `linear/tree.py` | a tree and a sparse matrix into levels of linear rankers |
| `linear/ensemble.py` | several such trees into a model; the shape of the data into a forecast |
| `linear/one_vs_all.py`, `linear/concatenated.py` | a sparse matrix into one linear level, alone or below clusters |
| `linear/budget.py`, `probe.py` | a byte budget into storage and thresholds that keep it; samples into a forecast |
| `label_rows.py` | label texts into further rows to learn from |
| `staged/coarse_to_fine.py` | an encoder and a tree into an encoder fine-tuned level by level |
| `staged/level_start.py` | what a level begins with: candidates, and vectors by a linear solve |
| `dual/` | an encoder, label texts and free label vectors into one search |
| `label_text_bags.py` | bags of words and label texts into levels whose vectors are composed of parts |
| `near_labels.py` | the labels nearest to each text into shortlists that label vectors learn from |
| `members.py`, `blend.py` | several trainings, or trained models, into one model |
"""
