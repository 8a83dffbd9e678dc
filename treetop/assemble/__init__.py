"""Where stages are wired into trainings that several recipes share.

| file | wires |
|---|---|
| `view.py` | texts, or ready-made features, into the sparse matrix a recipe trains on |
| `label_tree.py` | a description of the labels and a way to group them into a tree |
| `linear_tree.py` | a tree and a sparse matrix into levels of linear rankers |
| `tree_ensemble.py` | several such trees into a model; the shape of the data into a forecast |
| `budget.py` | a byte budget into storage and thresholds that keep it |
| `label_rows.py` | label texts into further rows to learn from |
| `coarse_to_fine.py` | an encoder and a tree into an encoder fine-tuned level by level |
| `two_tower.py`, `tower_fit.py`, `two_stage.py` | an encoder, label texts and free label vectors into one search |
| `neural_tree.py`, `neural_fit.py`, `inputs.py` | an encoder and label vectors into jointly trained levels |
| `neural_hooks.py` | mixed rows and priced vectors of augmentations into these levels |
| `edit.py`, `label_replay.py`, `label_vectors.py` | a trained model and changes to its labels into labels of today |
"""
