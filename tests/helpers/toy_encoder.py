"""A two-layer random BERT with a hand-made WordPiece tokenizer, written to a folder as transformers would."""

from __future__ import annotations

import json
from pathlib import Path

import toy

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def vocabulary() -> list[str]:
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    return [*SPECIAL, *letters, *(f"##{c}" for c in letters), "##s", *sorted(set(toy.WORDS)), *map(str, range(10))]


def write_tokenizer(folder: Path, *, words: list[str] | None = None) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = list(dict.fromkeys(words or vocabulary()))
    table = {word: i for i, word in enumerate(words)}
    made = Tokenizer(models.WordPiece(table, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", table["[SEP]"]), ("[CLS]", table["[CLS]"]))
    made.save(str(folder / "tokenizer.json"))


def write_encoder(folder: Path, *, seed: int = 0, kind: str = "bert", **changes: object) -> Path:
    """A folder that `encoder=<folder>` can name."""
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    size = len(dict.fromkeys(vocabulary()))
    settings = {
        "vocab_size": size, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 64, "max_position_embeddings": 66, "pad_token_id": 0, **changes,
    }  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = transformers.AutoConfig.for_model(kind, **settings)
        model = transformers.AutoModel.from_config(config)
        for name, weight in model.named_parameters():  # larger than BERT's 0.02, so that layers matter
            if weight.ndim > 1:
                torch.nn.init.normal_(weight, std=0.3 if "embedding" in name else 0.15)
    from safetensors.torch import save_file

    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config.to_dict(), default=str))
    return folder
