"""Dual encoders: one encoder for texts and label texts, with or without a classifier of free label vectors.

| file | what |
|---|---|
| `settings.py` | their settings, and what is refused |
| `pairs.py` | positives, and pairs that count for nothing: filter pairs, labels of equal texts |
| `fit.py` | from texts and label texts to a trained encoder and heads; forecast; the model's one level |
| `search.py` | after training: the vectors texts and labels are compared by |
| `new_labels.py` | what labels added later need |
| `stages.py` | the encoder first, then label vectors on the frozen encoder (NGAME, SiameseXML) |
"""
