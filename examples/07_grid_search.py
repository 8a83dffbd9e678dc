"""scikit-learn: an estimator, a pipeline of your own features, a grid search by P@1."""

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import treetop
from treetop.sklearn import XMCClassifier, scorer

rows = treetop.Dataset.read("wordnet", "train").take(np.arange(0, 78000, 130))
texts = list(rows.texts)
labels = [[rows.labels.names[column] for column in rows.Y[i].indices] for i in range(len(rows))]

grid = {"linear__cost_positive": [1.0, 4.0], "tfidf__ngrams": [[1, 1], [1, 2]]}
search = GridSearchCV(XMCClassifier("xr_linear", calibrate=False), grid, scoring=scorer("P@5"), cv=2)
search.fit(texts, labels)
print(search.best_params_, round(search.best_score_, 1))

names, scores = search.best_estimator_.predict_topk(["a small domestic cat"], k=3)
print(names, scores)

pipeline = make_pipeline(HashingVectorizer(n_features=2**14), XMCClassifier("xr_linear", calibrate=False))
indicators = pipeline.fit(texts, labels).predict(["a small domestic cat"])  # sparse, the best 5 of each row
print(indicators.shape, indicators.nnz)
