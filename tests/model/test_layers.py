"""Looking inside: recall of shortlists and figures of the first token against loops over single texts."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import toy
import treetop
from checked_html import checked
from command import run
from treetop.core.errors import ConfigError
from treetop.evaluate.report.layers import page, table
from treetop.features.encoder.attention import first_token
from treetop.features.encoder.transformer import Transformer, TransformerConfig
from treetop.kernels.pwcca import pwcca
from treetop.model.layers import look_inside, shortlist_recall, transformers_of

SMALL = {"max_length": 24}


@pytest.fixture(scope="module")
def folder(encoder, tmp_path_factory):
    """A model with an encoder and two levels."""
    out = tmp_path_factory.mktemp("inside") / "model"
    settings = {
        "encoder": {"model": encoder, **SMALL}, "tfidf": {"min_df": 1}, "clusters": "tree", "tree": {"max_leaf": 5},
        "beam": 2, "train": {"epochs": 2.0, "batch_size": 16},
    }  # fmt: skip
    treetop.fit("lightxml", toy.dataset(), settings=settings, calibrate=False, out=out)
    return out


def test_the_first_token_is_that_of_each_text_alone(encoder):
    transformer = Transformer.load(TransformerConfig(model=encoder, **SMALL))
    texts = toy.dataset(n=40).texts
    found = first_token(transformer, texts)
    body = transformers.AutoModel.from_pretrained(encoder, attn_implementation="eager").eval()
    figures, states = [], []
    for text in texts:
        ids = torch.from_numpy(transformer.tokenizer.encode(type(texts).of([text])).ids.astype(np.int64))[None]
        with torch.no_grad():
            out = body(input_ids=ids, output_attentions=True, output_hidden_states=True)
        states.append([state[0, 0].numpy() for state in out.hidden_states[1:]])
        row = []
        for attention in out.attentions:
            heads = attention[0, :, 0, :].numpy().astype(np.float64)
            entropy = np.mean([-sum(p * np.log(p) for p in head) for head in heads])
            row.append((entropy, entropy / np.log(ids.shape[1]), heads[:, 0].mean(), heads[:, 0].max()))
        figures.append(row)
    slow = np.array(figures).mean(0).T
    np.testing.assert_allclose([found.entropy, found.relative, found.average, found.maximum], slow, atol=1e-5)
    np.testing.assert_allclose(found.states, np.array(states).transpose(1, 0, 2), atol=1e-4)


def test_recall_is_counted_text_by_text(folder):
    model, data = treetop.load(folder), toy.dataset(seed=1)
    found = shortlist_recall(model, data.texts, data.Y)
    levels, views = model.members[0], model.views(data.texts)
    above = levels[0].rank.rank(
        views[levels[0].view], levels[0].shortlist.candidates(views[levels[0].view], None), levels[0].join, 2
    )
    below = levels[1].shortlist
    held = reachable = 0
    for row in range(len(data)):
        nodes = above.ids[above.indptr[row] : above.indptr[row + 1]]
        children = {int(c) for node in nodes for c in below.children[below.indptr[node] : below.indptr[node + 1]]}
        held += len(children & set(data.Y[row].indices.tolist()))
        reachable += len(children)
    assert [line["level"] for line in found] == [1, 2] and found[0]["recall"] == 100.0
    assert found[1]["recall"] == pytest.approx(100 * held / data.Y.nnz) and 0 < found[1]["recall"] < 100
    assert found[1]["candidates"] == pytest.approx(reachable / len(data))


def test_models_and_encoders_are_compared(folder, encoder):
    model, data = treetop.load(folder), toy.dataset(seed=1)
    found = look_inside(model, data, against=encoder, sample=50)
    assert found["texts"] == 50 and len(found["encoders"]) == 2
    one = found["encoders"][0]
    assert len(one["entropy"]) == 2 and np.shape(one["pwcca"]) == (2, 2)
    [pair] = found["between"]
    rows = np.sort(np.random.default_rng([0, 6]).permutation(len(data))[:50])
    tuned = first_token(transformers_of(model.features.values())[0], data.texts.take(rows))
    before = first_token(Transformer.load(TransformerConfig(model=encoder, **SMALL)), data.texts.take(rows))
    assert pair["pwcca"][1] == pytest.approx(pwcca(tuned.states[1], before.states[1]))
    same = look_inside(model, data, against=str(folder), sample=50)["between"][0]["pwcca"]
    assert same == pytest.approx([1.0] * 2)
    checked(page("inside", found))
    assert any("like the last" in line for line in table(found))


def test_models_without_an_encoder_have_shortlists_only():
    model = treetop.fit("xr_linear", toy.dataset(), settings={"tfidf": {"min_df": 1}}, calibrate=False)
    found = look_inside(model, toy.dataset(seed=1))
    assert found["encoders"] == [] and found["shortlists"]
    with pytest.raises(ConfigError, match="--against: the model has no encoder"):
        look_inside(model, toy.dataset(seed=1), against="all-MiniLM-L6-v2")


def test_the_command(folder, tmp_path):
    toy.write_rows(toy.dataset(seed=1), tmp_path / "rows.jsonl")
    words = ["explain", folder, "--layers", tmp_path / "rows.jsonl", "--split", "train"]
    shown = run(*words, "--report", tmp_path / "page", "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["texts"] == 60
    checked((tmp_path / "page" / "index.html").read_text())
    plain = run(*words)
    assert plain.returncode == 0 and "recall" in plain.stdout
    both = run(*words, "--text", "cat")
    assert both.returncode == 2 and "either --text, --label or --layers" in both.stderr
