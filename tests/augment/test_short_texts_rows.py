"""Augmentations before recipes for short texts: which rows they learn from, and with which targets."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import toy
import treetop
from toy_network import loss_of
from treetop.core.dataset import LabelSet
from treetop.core.errors import ConfigError, InputError
from treetop.kernels import reference
from treetop.network import build as network_build
from treetop.network import fit as network_fit
from treetop.network.network import Network, RowTargets
from treetop.training import plan

N, L = 60, toy.N_LABELS


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    file = tmp_path_factory.mktemp("words") / "glove.txt"
    file.write_text("".join(f"{w} {' '.join(f'{x:.3f}' for x in rng.standard_normal(32))}\n" for w in toy.WORDS))
    return str(file)


def settings(recipe, words, **changes):
    made = {
        "encoder": {"model": words, "max_length": 16, "min_count": 1},
        "train": {"epochs": 3.0, "batch_size": 16}, "min_steps_per_epoch": 1,
    }  # fmt: skip
    own = {
        "inceptionxml": {"network": {"filters": 8}, "clusters": "tree", "tree": {"max_leaf": 6}, "beam": 4},
        "astec": {"shortlist": L, "second_train": {"epochs": 3.0, "batch_size": 16}},
        "decaf": {"tree": {"max_leaf": 6}, "beam": 4},
        "eclare": {"tree": {"max_leaf": 6}, "beam": 4},
    }
    return made | own[recipe] | changes


def spied(monkeypatch, module, name):
    """What a function or class is called with."""
    seen, real = [], getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args, **named: seen.append((args, named)) or real(*args, **named))
    return seen


@pytest.mark.parametrize(
    "name",
    [
        "gandalf+inceptionxml",
        "label_mixup+inceptionxml",
        "glas+inceptionxml",
        "gandalf+decaf",
        "gandalf+astec",
        "gandalf+eclare",
        "label_mixup+decaf",
        "glas+eclare",
    ],
)
def test_combinations_train_repeat_and_differ_from_the_plain_recipe(name, words):
    data, base = toy.distinct("only"), name.split("+")[1]
    chosen = settings(base, words)
    made = [treetop.fit(which, data, settings=chosen).rank(data.texts, 5) for which in (name, name, base)]
    assert np.array_equal(made[0].ids, made[1].ids) and np.array_equal(made[0].score, made[1].score)
    assert len(made[0].score) != len(made[2].score) or not np.array_equal(made[0].score, made[2].score)


def test_shortlists_hold_all_soft_targets_of_label_texts(words, monkeypatch):
    seen, data = spied(monkeypatch, network_build, "Network"), toy.distinct("only")
    model = treetop.fit("gandalf+astec", data, settings=settings("astec", words))
    _, ((_, (head,), own), named) = seen  # surrogates first
    lists, learned = head.candidates.lists, named["learned"]
    shares = reference.label_shares(data.Y.toarray(), 0.2, 1.0)
    np.testing.assert_allclose(own.Y[N:].toarray(), shares, rtol=1e-6)
    assert own.Y.dtype == np.float32 and learned.tolist() == list(range(N + L))
    for label in range(L):
        count = int((shares[label] > 0).sum())
        assert sorted(lists[N + label, :count].tolist()) == np.flatnonzero(shares[label]).tolist()
    assert np.array_equal(model.counts, data.label_counts)


def test_astec_finds_labels_that_only_their_text_knows(words):
    data, chosen = toy.distinct("only"), settings("astec", words)
    unseen = int(np.flatnonzero(data.label_counts == 0)[0])
    text = [data.labels.texts[unseen]]
    assert unseen not in treetop.fit("astec", data, settings=chosen).rank(text, L).ids.tolist()
    assert unseen in treetop.fit("gandalf+astec", data, settings=chosen).rank(text, L).ids.tolist()


def test_rows_outside_the_sample_teach_neither_shortlists_nor_label_text_trees(words, monkeypatch):
    plans = spied(monkeypatch, network_fit, "plan_of")
    for base in ("astec", "decaf"):
        chosen = settings(base, words, gandalf={"train_on": "labels"})
        treetop.fit(f"gandalf+{base}", toy.distinct("only"), settings=chosen)
    assert len(plans) == 3  # of surrogates, of shortlists, of label texts
    for (_, rows, *_), _ in plans:
        assert rows.tolist() == list(range(N, N + L))


def test_decaf_reads_words_that_stand_in_label_texts_only(words):
    model = treetop.fit("decaf", toy.distinct("only"), settings=settings("decaf", words))
    found = model.features["words"].tokenizer.encode(toy.distinct("only").labels.texts)
    assert 0 not in found.ids.tolist() and found.lengths.min() > 1  # 0 is the unknown word


def test_decaf_weighs_positives_by_relevance(words, monkeypatch):
    seen, losses = spied(monkeypatch, network_build, "Network"), []
    data = toy.dataset()
    treetop.fit("decaf", data, settings=settings("decaf", words))
    (((inputs, heads, _), named),) = seen
    for weight in (None, 1.0, 2.0, 3.0):
        relevance = None if weight is None else data.Y * np.float32(weight)
        task = Network(inputs, heads, RowTargets(data.Y, relevance), **named)
        for module, _ in task.modules.values():
            module.eval()
        losses.append(float(loss_of(task, range(20)).detach()))
    assert losses[0] == pytest.approx(losses[1]) and losses[2] > losses[1] + 1e-3
    assert losses[3] - losses[2] == pytest.approx(losses[2] - losses[1], rel=1e-3)


def test_what_has_no_place_is_refused_in_one_sentence(words, caplog):
    for name in ("mixup+astec", "label_mixup+astec", "glas+astec"):
        with pytest.raises(ConfigError, match=r"does not support .*Recipes that do: .*inceptionxml"):
            plan(name)
    bare = dataclasses.replace(toy.dataset(), labels=LabelSet.of([f"L{i:02d}" for i in range(L)]))
    treetop.fit("decaf", bare, settings=settings("decaf", words))
    assert "ids are read instead" in caplog.text
    with pytest.raises(InputError, match=r"gandalf: no label of .* has a text"):
        treetop.fit("gandalf+inceptionxml", bare, settings=settings("inceptionxml", words))
