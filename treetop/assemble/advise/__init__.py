"""Which recipe to train on given data, in given time: short trials on samples, and what they promise for all documents.

| file | answer |
|---|---|
| `facts.py` | what the data and the machine are like, and which recipes are candidates |
| `clock.py` | how much time trials may take, and how seconds grow with the number of documents |
| `judging.py` | which documents validate trials, and which are sampled |
| `trials.py` | candidates and their blends trained on samples |
| `curve.py` | scores at full size, from those of the samples |
| `choice.py` | expected scores and time of every candidate, and the best of those that fit the budget |
| `advice.py` | all of it, from data to a choice |
"""
