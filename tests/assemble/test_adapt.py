"""Adapting an encoder: both objectives learn, kills change nothing, any recipe reads the folder, mistakes are told."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from torch.nn import functional as F

import toy
import treetop
from command import run
from kills import checkpoint_every_step
from toy_encoder import write_encoder
from treetop.assemble.adapt import RECORD, SimcseConfig, distinct, texts_of, views_of_one
from treetop.core.errors import ConfigError, InputError, WorkError
from treetop.core.texts import Texts
from treetop.features.encoder.encoder import Encoder, Pooling
from treetop.features.encoder.sources import find_encoder
from treetop.features.encoder.tokens import Tokenizer, Tokens
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.network.inputs import Encoded
from treetop.tensors.devices import ALONE
from treetop.tensors.packed import TokenRows
from treetop.train import loop

CPU = torch.device("cpu")
SMALL = {"max_length": 24, "train": {"epochs": 2, "batch_size": 16}, "encoder_optimizer": {"lr": 1e-3}}


def tokens_of(encoder, texts, length=24):
    return Tokenizer(find_encoder(encoder).tokenizer, length).encode(Texts.of(texts))


def weights(folder):
    """Without those of a pooler, which is not used and was not written."""
    return {key: value for key, value in find_encoder(str(folder)).weights.items() if "pooler" not in key}


@pytest.mark.parametrize("parts", [1, 3])
def test_the_loss_of_two_readings_is_simcse(encoder, parts):
    """Against plain torch without dropout, whole and in parts (gradient caching): value and gradient."""
    texts = ["cat dogs", "a river stone", "salt and bread", "wine", "paper metal glass", "an engine"]
    tokens, config = tokens_of(encoder, texts), SimcseConfig(temperature=0.1)
    body, pooling = Encoder(find_encoder(encoder), dropout=0.0, attention_dropout=0.0), Pooling("mean", (-1,))
    twice = Tokens.concat([tokens, tokens])
    inputs = Encoded(body, TokenRows(twice.ids, twice.offsets, CPU), [pooling])
    task, plan = views_of_one(inputs, len(texts), config, 0, ALONE)
    batch = next(plan.walk(0, 1))
    assert np.array_equal(np.sort(batch.rows), np.arange(6)) and np.array_equal(batch.pool, np.arange(6))
    value = 0.0
    for part in batch.split(parts):
        loss = task.loss(task.load(part, static=False))
        loss.backward()
        value += float(loss.detach())
    got = body.body.get_input_embeddings().weight.grad.clone()
    body.zero_grad()
    views = F.normalize(body(TokenRows(tokens.ids, tokens.offsets, CPU).gather(np.arange(6)), [pooling])[pooling.name])
    slow = F.cross_entropy(views @ views.T / 0.1, torch.arange(6))
    slow.backward()
    assert value == pytest.approx(float(slow.detach()), rel=1e-5)
    assert torch.allclose(got, body.body.get_input_embeddings().weight.grad, atol=1e-5)


def test_both_objectives_learn_and_give_a_folder_that_transformers_and_recipes_read(encoder, tmp_path):
    data = toy.dataset()
    for objective, longer in (("simcse", 3), ("mlm", 12)):
        settings = {**SMALL, "train": {"epochs": longer, "batch_size": 16}}
        folder = treetop.adapt(encoder, data, out=tmp_path / objective, objective=objective, settings=settings)
        assert not (tmp_path / f"{objective}.work").exists()
        before, after = weights(encoder), weights(folder)
        moved = [key for key, value in after.items() if not np.array_equal(before[key], value)]
        assert any("layer.0" in key for key in moved) and any("word_embeddings" in key for key in moved)
        model = transformers.AutoModel.from_pretrained(folder)
        assert int(transformers.AutoTokenizer.from_pretrained(folder)("cat")["input_ids"][1]) > 4
        assert np.array_equal(
            model.state_dict()["embeddings.word_embeddings.weight"],
            after["embeddings.word_embeddings.weight"],
        )
        fitted = treetop.fit(
            "depsl", data, settings={"encoder": {"model": str(folder), "max_length": 24}, "train": {"epochs": 0.1}},
            calibrate=False,
        )  # fmt: skip
        assert len(fitted.predict("cat dogs", k=2)) == 2
        assert json.loads((folder / RECORD).read_text())["objective"] == objective


def test_simcse_spreads_texts_out(encoder, tmp_path):
    data = toy.dataset()
    folder = treetop.adapt(
        encoder, data, out=tmp_path / "s", settings={**SMALL, "train": {"epochs": 8, "batch_size": 16}}
    )

    def likeness(name):
        features = Transformer.load(TransformerConfig(model=str(name), max_length=24))
        V = next(iter(features.vectors(features.tokenizer.encode(data.texts)).values()))
        V = V / np.linalg.norm(V, axis=1, keepdims=True)
        return float((V @ V.T).mean())

    assert likeness(folder) < likeness(encoder) - 0.05


@pytest.mark.parametrize("objective", ["simcse", "mlm"])
def test_a_killed_run_resumes_to_the_same_encoder(encoder, tmp_path, monkeypatch, objective):
    data, given = toy.dataset(), {"objective": objective, "settings": SMALL}
    whole = treetop.adapt(encoder, data, out=tmp_path / "whole", **given)
    steps, real = [], loop._Run._step

    def step(self, batch):
        steps.append(batch.step)
        if len(steps) == 4:
            raise KeyboardInterrupt
        real(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(loop._Run, "_step", step)
        checkpoint_every_step(patch)
        with pytest.raises(KeyboardInterrupt):
            treetop.adapt(encoder, data, out=tmp_path / "killed", **given)
        with pytest.raises(WorkError, match="is an interrupted run"):
            treetop.adapt(encoder, data, out=tmp_path / "killed", **given)
        again = treetop.adapt(encoder, data, out=tmp_path / "killed", resume=True, **given)
    assert steps[4] == 3
    assert all(np.array_equal(value, weights(again)[key]) for key, value in weights(whole).items())
    count = len(steps)
    assert treetop.adapt(encoder, data, out=again, resume=True, **given) == again and len(steps) == count
    with pytest.raises(WorkError, match="other seed"):
        treetop.adapt(encoder, data, out=again, resume=True, seed=1, **given)


def test_which_texts_are_read():
    data = toy.dataset()
    assert len(texts_of(data, "both")) == len(data) + data.n_labels
    assert next(iter(texts_of(data, "labels"))) == data.labels.texts[0]
    assert list(texts_of(["a", "b"], "both")) == ["a", "b"]
    bare = treetop.Dataset(data.texts, data.Y, type(data.labels).of([str(i) for i in range(data.n_labels)]))
    assert len(texts_of(bare, "both")) == len(bare)
    with pytest.raises(InputError, match=r"no label has a text .* Set texts=documents\."):
        texts_of(bare, "labels")


def test_equal_and_empty_texts_are_left_out():
    ids = np.array([2, 7, 3, 2, 3, 2, 7, 3, 2, 8, 3], np.uint16)
    kept = distinct(Tokens(ids, np.array([0, 3, 5, 8, 11])), 5)
    assert kept.ids.tolist() == [2, 7, 3, 2, 8, 3] and kept.offsets.tolist() == [0, 3, 6]


def test_mistakes_are_told(tmp_path):
    quiet = str(write_encoder(tmp_path / "quiet", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    texts = ["cat", "dog"]
    with pytest.raises(ConfigError, match=r"encoder_dropout: 0, but SimCSE .* Set encoder_dropout=0\.1\."):
        treetop.adapt(quiet, texts, out=tmp_path / "a", settings={"max_length": 24})
    with pytest.raises(ConfigError, match="--objective"):
        treetop.adapt(quiet, texts, out=tmp_path / "a", objective="bert")
    with pytest.raises(ConfigError, match="temperature"):
        treetop.adapt(quiet, texts, out=tmp_path / "a", objective="mlm", settings=["temperature=1"])
    with pytest.raises(InputError, match="1 different texts"):
        treetop.adapt(quiet, ["cat", "cat"], out=tmp_path / "b", settings={"max_length": 24})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    with pytest.raises(WorkError, match="only models are overwritten"):
        treetop.adapt(quiet, texts, out=tmp_path / "mine", overwrite=True)


def test_the_command(encoder, tmp_path):
    toy.write_rows(toy.dataset(), tmp_path / "rows.jsonl")
    words = ["adapt", encoder, tmp_path / "rows.jsonl", "--set", "max_length=24", "--set", "train.batch_size=16"]
    dry = run(*words, "--dry-run", "--budget", "memory=80GB")
    assert dry.returncode == 0 and "memory" in dry.stdout, dry.stderr
    done = run(*words, "--out", tmp_path / "enc", "--objective", "mlm")
    assert done.returncode == 0 and (tmp_path / "enc" / "model.safetensors").is_file(), done.stderr
    missing = run(*words)
    assert missing.returncode == 2 and "--out: missing" in missing.stderr
    again = run(*words, "--out", tmp_path / "enc")
    assert again.returncode == 2 and "exists already" in again.stderr
    assert run(*words, "--out", tmp_path / "enc", "--overwrite").returncode == 0
