"""What is learned after the model itself, on documents held out of its training.

| file | answer |
|---|---|
| `hold_out.py` | which documents are held out |
| `emptied.py` | which labels are ignored: those that have no document left for training |
| `judged.py` | the labels that the sources of a model return for these documents, and whether they are right |
| `logistic.py` | the weights of a logistic fusion |
| `boosted.py` | the trees of a boosted fusion |
| `fusion.py` | which of the two is kept, and how much rare labels are lifted |
| `rising.py` | hit rate as a non-decreasing function of the score (isotonic regression) |
| `calibration.py` | probabilities from scores |
| `scores.py` | a trained model with a fusion, probabilities or both |
| `baseline.py` | whether a quick linear model is better than a network |
"""
