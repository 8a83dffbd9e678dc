"""How good is it? Rankings compared with the true labels: formulas and conventions are in `docs/metrics.md`.

| file | answers |
|---|---|
| `match.py` | which predictions hit? (`Matches`: filter pairs removed, documents only) |
| `score.py` | everything at once (`score` a ranking, `evaluate_model`) |
| `metrics.py` | how good overall? (P, R, nDCG, PSP, PSnDCG, C, macroF1, microF1 at k) |
| `propensity.py` | how likely was a label to be written down at all? |
| `slices.py` | how good on frequent and on rare labels? |
| `bootstrap.py` | how sure is that? (95 % intervals, resampled rows) |
| `paired.py` | is one model better than another on the same rows? |
| `per_label.py` | how good on each label? |
| `report/evaluation.py` | all of it as HTML (`report/versus.py` of several models, `report/examples.py` texts) |
"""
