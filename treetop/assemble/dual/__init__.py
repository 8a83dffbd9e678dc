"""Dual encoders: one encoder for texts and label texts, with or without a classifier of free label vectors.

| file | what |
|---|---|
| `settings.py` | their settings, and which combinations are refused |
| `pairs.py` | positives, and pairs that are ignored: filter pairs, labels with equal texts |
| `fit.py` | from texts and label texts to a trained encoder and heads; forecast; the model's one level |
| `search.py` | after training: the vectors by which texts and labels are compared |
| `index.py` | how labels are searched: exactly, by inverted lists or by an HNSW graph |
| `new_labels.py` | what the model keeps for labels that are added later |
| `stages.py` | two stages: the encoder, then label vectors on the frozen encoder (NGAME, SiameseXML) |
"""
