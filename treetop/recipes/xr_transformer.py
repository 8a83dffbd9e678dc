"""XR-Transformer (NeurIPS 2021): an encoder fine-tuned coarse to fine, then a linear tree on tf-idf and embedding.

Features: tf-idf concatenated with a transformer's embedding, each L2-normalised. Labels: PIFA. Tree: balanced; a
preliminary one on tf-idf, on whose levels the encoder is fine-tuned, and a refined one on both. Shortlist: descend.
Rank: linear. Key idea: recursive fine-tuning, first on a hundred clusters, then on thousands; each head is bootstrapped
by a linear solve over the current embeddings. The heads are discarded, and a linear ranker is trained on the fine-tuned
embeddings. `members` trains an ensemble that shares tf-idf.

Deviations: mean of the last layer instead of the pooler; the trained head selects the next level's candidates unless
`matcher` is `concat`; label texts are added as training rows if they share words with the documents (`label_rows`) and
no filter pair excludes the label for its own text; padding is masked instead of adding a constant; losses are summed
over candidates; embeddings have constant norm in training. Word vectors (table 5) are `frozen: false` with
`encoder.layers: [0]`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import sparse

from treetop.assemble.label_rows import LabelRows, with_label_rows
from treetop.assemble.label_tree import tree_stage
from treetop.assemble.linear.ensemble import TreesConfig, forecast_trees
from treetop.assemble.linear.tree import LinearConfig, Task, train_member
from treetop.assemble.members import count_members, encoder_of, job_of, member_name
from treetop.assemble.staged.coarse_to_fine import FineConfig, chosen_levels, embed, fine_tune
from treetop.assemble.view import sparse_view
from treetop.core.config import setting
from treetop.core.dataset import Csr, Dataset
from treetop.core.errors import ConfigError, InputError
from treetop.core.forecast import Forecast
from treetop.core.log import logger
from treetop.core.types import LabelTree, Level
from treetop.core.work import Job
from treetop.features.concatenate import Concatenated, concatenated, view_of
from treetop.features.encoder.sources import read_encoder_config
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.features.tfidf.tfidf import TfidfConfig
from treetop.labels.pifa import pifa
from treetop.model import Model
from treetop.network.forecast import EncoderSize, ParameterCounts, forecast_member, forecast_members
from treetop.network.prepare import prepare
from treetop.network.settings import small_batches
from treetop.partition.balanced import BalancedConfig, balanced, sizes_of
from treetop.predict.blend import Blend, check_blend

GROUP = "transformer, trees"
PASSES = 30.0  # over the rows of a linear problem, as forecasts count them


@dataclass(frozen=True, kw_only=True)
class Config(FineConfig):
    """Settings of `xr_transformer`."""

    encoder: TransformerConfig = setting(TransformerConfig(l2=True), "encoder and pooling")
    tfidf: TfidfConfig = setting(TfidfConfig(ngrams=(1, 2), min_df=2), "tf-idf features")
    members: int = setting(1, "ensemble size: members differ in seed and trees and share tf-idf", low=1, high=64)
    encoders: tuple[str, ...] = setting((), "ensemble with one member per encoder, in place of `members`")
    blend: Blend = setting("average", "how scores of the members are combined")
    frozen: bool = setting(False, "freeze the encoder instead of fine-tuning it (for CPUs)")
    label_rows: LabelRows = setting(
        "auto", "add label texts as training rows; auto: if documents share words with the texts of their labels"
    )
    ranker_view: Literal["fused", "embedding", "tfidf"] = setting(
        "fused", "features of the refined tree and the ranker (fused: tf-idf + embedding)"
    )
    preliminary_tree: BalancedConfig = setting(
        BalancedConfig(max_leaf=16, branching=16, top_branching=128),
        "preliminary tree, for fine-tuning the encoder level by level",
    )
    refined_tree: BalancedConfig = setting(BalancedConfig(max_leaf=16), "refined tree, for the ranker")
    ranker: LinearConfig = setting(
        LinearConfig(cost_positive=4.0, threshold=0.01, negatives="man_last", beam=50),
        "linear ranker",
    )


def forecast(dataset: Dataset, config: Config) -> Forecast:
    """Encoder and heads, then the ranker on rows that have the encoder's width more numbers."""
    linear = forecast_trees(dataset, TreesConfig(tfidf=config.tfidf, linear=config.ranker))
    voters = len(config.encoders) or config.members
    if config.ranker_view == "tfidf":
        return forecast_members([linear] * voters)
    n, needs = len(dataset), []
    for name in config.encoders or (config.encoder.model,) * voters:
        size = EncoderSize.of(read_encoder_config(name))
        width = float(size.width * len(config.encoder.layers))
        nodes = 1.1 * min(dataset.n_labels, config.max_clusters) if not config.frozen else 0.0
        per_text = dataset.Y.nnz / max(n, 1)
        counts = ParameterCounts(
            vectors=nodes * width,
            scored=width * min(nodes, (config.train_beam + per_text) * config.preliminary_tree.branching),
            frozen=width if config.frozen else 0.0,
            label_texts=0.0,
        )
        training = small_batches(dataset, config.train, config.min_steps_per_epoch)
        neural = forecast_member(dataset, size, counts, training, config.encoder.most_tokens)
        rows = n * (3.0 * per_text + ("man" in config.ranker.negatives) * config.ranker.train_beam)
        weights = 6.0 * 1.1 * dataset.n_labels * width
        needs.append(
            Forecast(
                memory=max(neural.memory + 8.0 * n * width, linear.memory + 20.0 * n * width + 2.0 * weights),
                model=linear.model + weights + 4.0 * size.parameters,
                time=neural.time + linear.time + rows * width * 16.0 * PASSES / 1e10,
            )
        )
    return forecast_members(needs)


def fit(dataset: Dataset, config: Config, job: Job) -> Model:
    """Fine-tune an encoder for each member, then train its ranker."""
    _check(dataset, config)
    if dataset.features:
        logger.info("precomputed features of %s are ignored: tf-idf is computed from the texts", dataset.name)
        dataset = replace(dataset, features={})
    view = sparse_view(dataset, config.tfidf, job)
    tfidf: Any = view.features["tfidf"]
    rows, words = with_label_rows(dataset, view.X, tfidf, config.label_rows, seed=job.seed)
    transformers: list[Transformer] = []
    members = []
    for m in range(count_members(config.members, config.encoders)):
        member_job = job_of(job, m)
        name, X = view.name, words
        if config.ranker_view != "tfidf":
            same = config.frozen and not config.encoders and m > 0  # only the tree differs
            if not same:
                transformer, H = _encoder(
                    rows, config, words, m, job=member_job, shared=member_job if config.encoders else job
                )
                transformers.append(transformer)
            name = view_of(config.ranker_view, len(transformers) - 1)
            X = concatenated(words if config.ranker_view == "fused" else None, H)
        members.append(_ranker(rows, config, X, name, member_job))
    features: dict[str, Any] = {"fused": Concatenated(tfidf, transformers)} if transformers else {"tfidf": tfidf}
    return Model.over(dataset, features, members, config.blend)


def _check(dataset: Dataset, config: Config) -> None:
    """Refuse before anything is trained what could not work afterwards."""
    voters = count_members(config.members, config.encoders)
    if config.ranker_view == "tfidf" and (not config.frozen or config.encoders):
        raise ConfigError("ranker_view: 'tfidf' reads no encoder. Set frozen=true and name no encoders.")
    if voters > 1:
        check_blend(config.blend, [config.ranker.join(last=True)])
    if not config.frozen:
        chosen_levels(sizes_of(dataset.n_labels, config.preliminary_tree), config)
    if dataset.texts.offsets[-1] == 0:
        raise InputError(f"{dataset.name}: has no texts, which xr_transformer reads. Use xr_linear for features alone.")


def _encoder(dataset: Dataset, config: Config, X: Csr, m: int, *, job: Job, shared: Job) -> tuple[Transformer, Any]:
    """The m-th voter's encoder and the vectors it gives the texts; tokens of one encoder serve all voters."""
    chosen = encoder_of(config.encoder, config.encoders, m)
    prepared = prepare(
        dataset, chosen, shared, name=member_name("encoder", m), dropout=config.encoder_dropout, frozen=config.frozen
    )
    if not config.frozen:
        tree = tree_stage(job, "preliminary", lambda: _tree(dataset, X, config.preliminary_tree, job.seed))
        prepared = prepared.with_features(fine_tune(dataset, prepared, tree, X, config, job=job))
    return prepared.features, embed(prepared, job, "views")


def _tree(dataset: Dataset, X: Csr, config: BalancedConfig, seed: int) -> LabelTree:
    """A tree over the labels as the documents describe them."""
    Y = (sparse.diags(dataset.documents.astype(np.float32)) @ dataset.Y).tocsr()
    Y.eliminate_zeros()  # rows that are not documents have no labels now, and X need not be copied
    return balanced(pifa(X, Y), config, seed=seed)


def _ranker(dataset: Dataset, config: Config, X: Csr, view: str, job: Job) -> list[Level]:
    tree = tree_stage(job, "refined", lambda: _tree(dataset, X, config.refined_tree, job.seed))
    logger.info("ranker: %s", " → ".join(f"{size:,}" for size in tree.sizes))
    linear = config.ranker
    if config.cost_sensitive and linear.relevance == "off":
        linear = replace(linear, relevance="induce")
    task = Task(X, dataset.Y, dataset.relevance, dataset.filter_pairs)
    return train_member(task, tree, view, linear, job=job, name="ranker")
