"""Short texts encoded by a small network over word vectors; both are trained together.

The table of words begins at vectors from `vectors.py`. Networks: `inception` (InceptionXML), `bag` (Astec), `decaf`,
`cnn` (XML-CNN) and `lstm` (AttentionXML), whose view is a sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import torch

from treetop.core.abilities import Gradient, Shares
from treetop.core.config import build
from treetop.core.errors import ConfigError, ModelError
from treetop.core.part_checks import DAMAGED, floats, whole
from treetop.core.renamed import translated
from treetop.core.store import Part
from treetop.core.texts import Texts
from treetop.features.encoder.tokens import Tokenizer, Tokens
from treetop.features.integrated import Pieces, words_of
from treetop.features.learned import Learned
from treetop.features.pullback import Pullback, scaled
from treetop.features.views import Views
from treetop.features.words import bag, cnn, inception, lstm
from treetop.features.words.layers import Task, WordNet
from treetop.features.words.vectors import LONGEST, WordVectors
from treetop.tensors.handover import to_array
from treetop.tensors.packed import TokenRows
from treetop.tensors.sequences import SequenceRows, Sequences

NETS: dict[str, tuple[Any, type, tuple[Task, ...]]] = {
    "inception": (inception.Inception, inception.InceptionConfig, inception.TASKS),
    "bag": (bag.Bag, bag.BagConfig, bag.VIEWS),
    "decaf": (bag.DecafBag, bag.BagConfig, (bag.DOCUMENT,)),
    "cnn": (cnn.Cnn, cnn.CnnConfig, (cnn.VIEW,)),
    "lstm": (lstm.Lstm, lstm.LstmConfig, (lstm.STATES,)),
}


class Words(Learned[Task]):
    """Views of texts by a network over word vectors."""

    kind: ClassVar[str] = "features.words.1"
    encoder: WordNet

    def __init__(
        self,
        net: str,
        encoder: WordNet,
        tokenizer: Tokenizer,
        poolings: Sequence[Task],
        *,
        name: str = "words",
        device: torch.device | None = None,
    ) -> None:
        if tokenizer.size > encoder.vocabulary:
            raise ConfigError(
                f"encoder: its tokenizer knows {tokenizer.size:,} words but the table has {encoder.vocabulary:,}; "
                "they do not belong together. Copy both from one source."
            )
        super().__init__(encoder, tokenizer, poolings, name=name, device=device)
        self.net = net

    @classmethod
    def untrained(
        cls,
        net: str,
        config: Any,
        table: WordVectors,
        *,
        max_length: int,
        views: Sequence[Task],
        seed: int,
        name: str = "words",
    ) -> Words:
        """An untrained network over these word vectors."""
        build_net = NETS[net][0]
        n, width = table.vectors.shape
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network: WordNet = build_net(config, n, width, max_length)
        network.init_words(torch.from_numpy(table.vectors))
        network.eval()
        return cls(net, network, Tokenizer(table.tokenizer, max_length), views, name=name)

    def views(self, texts: Texts) -> Mapping[str, Any]:
        """Sequences are computed as they are read; so they are not checked for finite values, as scores are."""
        if not isinstance(self.encoder, lstm.Lstm):
            return super().views(texts)
        return Views({self.view_name(lstm.STATES): lambda: self.sequences(self.tokenizer.encode(texts))})

    def sequences(self, tokens: Tokens) -> SequenceRows:
        """The states of tokenised texts."""
        store = TokenRows(tokens.ids, tokens.offsets, self.device, tokens.rows)
        if self.encoder.training:
            self.encoder.eval()

        def read(rows: Any) -> Sequences:
            found: Any = self._run(store.gather(rows))[lstm.STATES.name]
            return Sequences(found.states.float(), found.there)

        return SequenceRows(read, tokens.lengths, self.encoder.view_width(lstm.STATES), self.device)

    def shares(self, text: str, view: str, gradients: Sequence[Gradient]) -> list[Shares] | None:
        """Of a sequence the weight of each token is shared out, tokens of a word together."""
        if view != self.view_name(lstm.STATES) or not isinstance(self.encoder, lstm.Lstm):
            return super().shares(text, view, gradients)
        pieces = Pieces(*self.tokenizer.places(text))
        found = []
        for gradient in gradients:
            sums = np.bincount(pieces.word + 1, gradient.weights[: len(pieces.word)], len(pieces.spans) + 1)
            found.append(Shares(words_of(text, pieces, sums[1:].astype(np.float32)), float(sums[0])))
        return found

    def shares_of(self, text: str, pooling: Task, outers: Sequence[Pullback]) -> list[Shares]:
        """The length of a view at length 1 stays that of the text, as blanks have none."""
        if pooling != bag.NEAR:
            return super().shares_of(text, pooling, outers)
        with torch.no_grad():
            tokens = self.tokenizer.encode(Texts.of([text]))
            packed = TokenRows(tokens.ids, tokens.offsets, self.device, tokens.rows).gather(np.zeros(1, np.int64))
            length = float(self.encoder(packed, [bag.COARSE])[bag.COARSE.name].float().norm())
        return super().shares_of(text, bag.COARSE, [scaled(outer, 1.0 / max(length, 1e-12)) for outer in outers])

    def to_part(self) -> Part:
        weights = {key: to_array(value.float()) for key, value in self.encoder.state_dict().items()}
        settings: Any = self.encoder.config
        config = {
            "net": self.net,
            "settings": asdict(settings),
            "max_length": self.tokenizer.max_length,
            "views": [task.name for task in self.poolings],
            "name": self.name,
        }
        return Part(self.kind, config, weights, files={"tokenizer.json": self.tokenizer.raw})

    @classmethod
    def from_part(cls, part: Part) -> Words:
        name, length = part.setting("net", str), whole(part, "max_length", 1, LONGEST)
        raw = part.files.get("tokenizer.json")
        if name not in NETS or raw is None:
            raise ModelError(f"{part.kind}: network {name!r} or tokenizer.json is missing. The model is damaged.")
        build_net, kind, known = NETS[name]
        table = floats(part, "words", None, None)
        if len(table) < 2 or table.shape[1] < 1:  # a row for padding, then words
            raise ModelError(f"{part.kind}: its table of words is {len(table)} x {table.shape[1]}. {DAMAGED}")
        try:
            settings: Any = build(kind, translated(kind, part.setting("settings", dict)))
            with torch.device("meta"):
                encoder: WordNet = build_net(settings, len(table) - 1, table.shape[1], length)
        except ConfigError as error:
            raise ModelError(f"{part.kind}: {error} The model is damaged; copy it again.") from None
        state = {key: floats(part, key, *tensor.shape) for key, tensor in encoder.state_dict().items()}
        encoder.load_state_dict({key: torch.from_numpy(np.array(tensor)) for key, tensor in state.items()}, assign=True)
        encoder.eval()
        views = {task.name: task for task in known}
        asked = part.setting("views", list)
        if not asked or any(view not in views for view in asked):
            raise ModelError(f"{part.kind}: {asked!r} are not views of '{name}'. The model is damaged; copy it again.")
        return cls(
            name, encoder, Tokenizer(raw, length), [views[view] for view in asked], name=part.setting("name", str)
        )
