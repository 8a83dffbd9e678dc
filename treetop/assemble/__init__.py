"""How are stages combined into trainings that several recipes share?

| file | from | to |
|---|---|---|
| `view.py` | texts or precomputed features | the sparse matrix that a recipe trains on |
| `char_ngrams.py` | settings that are `auto`; the texts | whether character n-grams stand beside words |
| `stated_language.py` | settings that are `auto`; the language that the data state | settings that name it |
| `label_tree.py`, `label_graph.py` | label descriptions; co-occurring labels | a label tree; a label graph |
| `linear/tree.py` | a tree and a sparse matrix | levels of linear rankers |
| `linear/ensemble.py` | several such trees; the shape of the data | a model; a forecast |
| `linear/one_vs_all.py`, `linear/concatenated.py` | a sparse matrix | one linear level, alone or below clusters |
| `linear/budget.py`, `probe.py` | a byte budget; samples | storage type and pruning thresholds; a forecast |
| `label_rows.py` | label texts | additional training rows |
| `staged/coarse_to_fine.py` | an encoder and a tree | an encoder fine-tuned level by level |
| `staged/level_start.py` | the level above | a level's candidates, and its initial vectors by a linear solve |
| `dual/` | an encoder, label texts and free label vectors | one search |
| `label_text_bags.py` | bags of words and label texts | levels whose label vectors are composed of parts |
| `near_labels.py` | the labels nearest to each text | shortlists to train label vectors on |
| `members.py`, `blend.py` | several trainings; trained models | one model |
| `held_out/` | documents held out of training | probabilities, a fusion |
| `advise/`, `tune/` | trials on samples | which recipe to train; which settings |
"""
