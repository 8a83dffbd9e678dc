"""Every form of network that the GPU suite trains on toy data, with its settings."""

WORDS = {"xmlcnn", "attentionxml", "inceptionxml", "inceptionxml_lf", "astec", "decaf", "eclare"}
TREE = {"clusters": "tree", "tree": {"max_leaf": 5}, "beam": 4, "tfidf": {"min_df": 1}}
RATE = {"encoder_optimizer": {"lr": 0.02}, "head_optimizer": {"lr": 0.02}}  # of toy word vectors
FORMS = {
    "lightxml": ("lightxml", {}),
    "lightxml, clusters": ("lightxml", TREE),
    "cascadexml": ("cascadexml", {"resolutions": [4, 8], "beam": [3, 5], "tfidf": {"min_df": 1}}),
    "xr_transformer": (
        "xr_transformer",
        {"preliminary_tree": {"max_leaf": 5, "branching": 2, "top_branching": 4}, "tfidf": {"min_df": 1}},
    ),
    "x_transformer": ("x_transformer", {"tree": {"max_leaf": 5}, "tfidf": {"min_df": 1}}),
    "xmlcnn": ("xmlcnn", RATE),
    "attentionxml": ("attentionxml", {"clusters": "none", **RATE}),
    "attentionxml, clusters": ("attentionxml", {**TREE, **RATE}),
    "renee": ("renee", {}),
    "renee, low memory": ("renee", {"label_memory": "low"}),
    "inceptionxml": ("inceptionxml", TREE),
    "inceptionxml_lf": ("inceptionxml_lf", TREE),
    "astec": ("astec", {"shortlist": 20}),
    "decaf": ("decaf", {"tree": {"max_leaf": 6}, "beam": 4}),
    "eclare": ("eclare", {"tree": {"max_leaf": 6}, "beam": 4}),
    "depsl": ("depsl", {"pool": {"size": 24, "mine_from": 2, "mine_every": 4}}),
    "unidec": ("unidec", {"pool": {"size": 24, "mine_from": 2, "mine_every": 4}}),
    "unidec, all labels": ("unidec", {"classifier": {"labels": "all"}}),
    "unidec, host": ("unidec", {"pool": {"size": 24}, "classifier": {"offload": True}}),
    "dexml": ("dexml", {}),
    "simcse": ("simcse", {}),
    "graphsage": ("graphsage", {"fan_out": 3}),
    "ngame": ("ngame", {"pool": {"size": 24}, "second_pool": {"size": 24}}),
    "siamesexml": ("siamesexml", {"pool": {"size": 24}, "second_pool": {"size": 24}}),
}


def settings_of(form, encoder, loop):
    """(recipe, settings) of a form, with these settings of its training loop."""
    recipe, settings = FORMS[form]
    rates = {} if recipe in WORDS else {"encoder_optimizer": {"lr": 0.002}}
    given = {**settings, **rates, "encoder": {"model": encoder, "max_length": 16}, "train": loop}
    if recipe in {"astec", "inceptionxml_lf", "ngame", "siamesexml"}:
        given["second_train"] = loop
    return recipe, given
