"""Settings that were renamed: old name to new, for users who type the old one and for models saved with it.

A name is looked up among the settings of its group, so that one old name may have several new ones: `keep` is `beam` in
a tree and `neighbours` in random walks.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Collection, Mapping
from typing import Any

NAMES: dict[str, tuple[str, ...]] = {
    "apart": ("detach_fraction",),
    "backward": ("symmetric_weight",),
    "batch": ("batch_size",),
    "bce": ("bce_weight",),
    "begin": ("init",),
    "block": ("block_size",),
    "bottleneck": ("projection_dim",),
    "chars": ("char_ngrams",),
    "chars_within": ("char_ngrams_within",),
    "classifier": ("classifier_weight",),
    "clip": ("clip_norm",),
    "cluster": ("cluster_size",),
    "counts": ("count_weights",),
    "decay": ("ema_decay",),
    "dense": ("embedding_scale",),
    "depth": ("max_depth", "mine_depth"),
    "descent": ("sgd",),
    "dimension": ("projection_dim",),
    "dual": ("dual_scale",),
    "effort": ("ef_search",),
    "encoder": ("model",),
    "every": ("mine_every",),
    "filled": ("fill",),
    "fine_tune": ("frozen",),
    "first": ("projection_init",),
    "floor": ("min_loss",),
    "freeze": ("freeze_words",),
    "fusion": ("fusion_weight",),
    "grow": ("curriculum",),
    "hardest": ("hard_negatives",),
    "head": ("head_threshold",),
    "k": ("branching",),
    "keep": ("beam", "neighbours", "shortlist", "stored_negatives", "train_beam"),
    "labels": ("label_features", "labels_per_step"),
    "last": ("last_transform",),
    "learn": ("train_on",),
    "learn_encoder": ("encoder_optimizer",),
    "learn_heads": ("head_optimizer",),
    "learn_residual": ("residual_optimizer",),
    "learn_surrogate": ("surrogate_optimizer",),
    "learn_vectors": ("label_optimizer",),
    "least": ("min_count", "min_free"),
    "length": ("embedding_norm",),
    "level": ("kprob_c",),
    "long": ("long_texts",),
    "max_passes": ("max_iter",),
    "memory": ("label_memory",),
    "meta_dropout": ("cluster_dropout",),
    "min_chars": ("min_word_length",),
    "mix": ("combine",),
    "most": ("vocab_size",),
    "narrow": ("reduce_to_word_dim",),
    "near": ("index",),
    "negatives": ("hard_negatives",),
    "order": ("label_order",),
    "over": ("train_on",),
    "pick": ("positive_set",),
    "place": ("offload",),
    "preliminary": ("preliminary_tree",),
    "probe": ("nprobe",),
    "rare": ("logit_adjustment",),
    "raw": ("classifier_score",),
    "record": ("cuda_graphs",),
    "reduce": ("bce_reduction", "reduction"),
    "refined": ("refined_tree",),
    "rule": ("stop_when",),
    "second_learn": ("second_optimizer",),
    "share": ("label_fraction", "word_fraction"),
    "shares": ("epoch_split",),
    "shrink": ("shrinkage",),
    "side": ("queries",),
    "size": ("init_scale", "list_size"),
    "start": ("mine_from",),
    "steep": ("sharpness",),
    "steps": ("min_steps_per_epoch",),
    "surrogate": ("surrogate_clusters",),
    "top": ("k", "top_branching"),
    "unit": ("cosine",),
    "vectors": ("init",),
    "warm": ("warm_start",),
    "weighting": ("propensity_weighting",),
    "width": ("branching", "pca_dim"),
    "words": ("tokenizer",),
}
VALUES: dict[str, dict[Any, Any]] = {  # of settings whose values were renamed too, by the old name of the setting
    "fine_tune": {True: False, False: True},
    "near": {"all": "exact", "lists": "ivf", "graph": "hnsw"},
    "pick": {"some": "pool"},
    "place": {"device": False, "host": True},
    "raw": {True: "logit", False: "cosine"},
    "rule": {"same": "stable"},
}


def new_name(old: str, known: Collection[str]) -> str | None:
    """What the setting `old` is called now in a group that has the settings `known`; None: it was never renamed."""
    return None if old in known else next((name for name in NAMES.get(old, ()) if name in known), None)


def new_value(old: str, value: Any) -> Any:
    """What the value of the setting that was called `old` is now."""
    values = VALUES.get(old, {})
    return values.get(value, value) if isinstance(value, str | bool) else value


def notice(old: str, new: str, where: str, value: Any) -> str:
    """One sentence for people who typed an old name, with the new one and the value to give it."""
    group = where.removesuffix(old)
    now = f"setting '{where}' is now called '{group}{new}'"
    if isinstance(value, Mapping):
        return f"{now}. Write {group}{new}.{next(iter(value), 'name')}=..."
    value_now = new_value(old, value)
    return f"{now}. Write {group}{new}={str(value_now).lower() if isinstance(value_now, bool) else value_now}."


def translated(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the dataclass `kind` that an older version saved, under the names of this one; the rest as it is.

    >>> from treetop.partition.balanced import BalancedConfig
    >>> translated(BalancedConfig, {"width": 32, "rule": "same", "max_leaf": 10})
    {'branching': 32, 'stop_when': 'stable', 'max_leaf': 10}
    """
    hints = typing.get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)}
    current = {}
    for key, value in values.items():
        new = new_name(key, known)
        if new is not None:
            key, value = new, new_value(key, value)
        group = hints.get(key)
        if dataclasses.is_dataclass(group) and isinstance(value, Mapping):
            value = translated(typing.cast(type, group), value)
        current[key] = value
    return current
