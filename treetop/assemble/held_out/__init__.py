"""What is learnt on documents held out of training, after the model itself.

| file | answer |
|---|---|
| `hold_out.py` | which documents are held out |
| `judged.py` | what the sources of a model say of held-out documents, and whether it is right |
| `logistic.py` | the weights of a logistic fusion |
| `boosted.py` | the trees of a boosted one |
| `fusion.py` | which of them is kept, and how much rare labels are lifted |
| `rising.py` | the share of hits as a function of a score that never falls |
| `calibration.py` | probabilities of scores |
| `scores.py` | a trained model with either |
| `baseline.py` | whether a quick linear model is better on them |
"""
