"""Any transformer as a function from packed token sequences to pooled vectors of chosen layers.

Sequences run end to end without padding (`kernels/gpu/packed_attention.py` keeps them apart). Whether a model allows
that is found out by a probe; those that do not are padded.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from treetop.core.errors import ConfigError, ModelError
from treetop.features.encoder import packed_linear
from treetop.features.encoder.files import AGAIN, check_settings, known_config, model_errors
from treetop.features.encoder.quick_layers import QuickLayers
from treetop.features.encoder.sources import Source, quiet
from treetop.features.encoder.windows import averaged, of_sequences
from treetop.kernels.gpu import one_pass_layers
from treetop.kernels.gpu.packed_attention import attend, attend_plain, beyond_tiles
from treetop.tensors.packed import Packed, TokenRows
from treetop.tensors.warmup import Shapes

ATTENTION = "treetop_packed"


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, None]:
    """What transformers calls for every layer: (1, heads, tokens, width) in, (1, tokens, heads, width) out."""
    starts = kwargs.get("treetop_starts")
    if starts is None:
        return ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, attention_mask, **kwargs)
    scale = kwargs.get("scaling") or query.shape[-1] ** -0.5
    if len(starts) == 2 and not query.is_cuda:  # one text alone: nothing to keep apart
        out = F.scaled_dot_product_attention(query, key, value, dropout_p=kwargs.get("dropout") or 0.0, scale=scale)
        return out.transpose(1, 2), None
    q, k, v = (x.squeeze(0).transpose(0, 1) for x in (query, key, value))
    dropout = float(kwargs.get("dropout") or 0.0)
    if query.is_cuda and query.dtype == torch.float32:  # a few texts before training: not worth compiling for
        return attend_plain(q, k, v, starts, scale=scale, dropout=dropout)[None], None
    out = attend(q, k, v, starts, kwargs["treetop_beyond"], scale=scale, dropout=dropout)
    return out[None], None


ALL_ATTENTION_FUNCTIONS.register(ATTENTION, _attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(ATTENTION, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


@dataclass(frozen=True)
class Pooling:
    """One vector per text: the first token or the mean of all, of one layer or several concatenated.

    Layer 0 is the embedding output, -1 the last layer.
    """

    kind: str  # cls | mean
    layers: tuple[int, ...]

    @property
    def name(self) -> str:
        """The view's name, such as `cls:-1,-2`."""
        return f"{self.kind}:{','.join(str(layer) for layer in self.layers)}"


class Layers(Protocol):
    """Something that computes hidden states faster than the modules do."""

    def states(self, packed: Packed, wanted: Sequence[int]) -> dict[int, Tensor]: ...


class Encoder(nn.Module):
    """A transformer that reads packed sequences; `forward` gives one tensor (rows, width) per pooling."""

    def __init__(self, source: Source, *, dropout: float | None = None, attention_dropout: float | None = None) -> None:
        super().__init__()
        self.settings, self.commit = source.config, source.commit
        with model_errors():
            self.body = _build(source, dropout, attention_dropout)
            stacks = [m for m in self.body.modules() if isinstance(m, nn.ModuleList) and len(m) == self.depth]
        if not stacks:
            raise ConfigError(f"encoder: '{source.name}' has no list of {self.depth} layers; choose another encoder.")
        self._layers: list[nn.Module] = list(stacks[0])
        self.windows = nn.ModuleDict()  # by view, where the pooling of windows is learned; else they are averaged
        self._catch = threading.local()
        self._watch()
        self.offset = 0
        with model_errors():
            self.packs = self._probe()
        self._quick: Layers | None = None
        self.eval()

    @property
    def depth(self) -> int:
        return int(self.body.config.num_hidden_layers)

    @property
    def width(self) -> int:
        return int(self.body.config.hidden_size)

    @property
    def room(self) -> int:
        """Maximum tokens of the position table."""
        return int(getattr(self.body.config, "max_position_embeddings", 1 << 30)) - self.offset

    @property
    def vocabulary(self) -> int:
        return int(self.body.get_input_embeddings().weight.shape[0])

    def view_width(self, pooling: Pooling) -> int:
        """Dimension of a view."""
        return self.width * len(pooling.layers)

    def layer(self, index: int) -> int:
        """A layer number counted from the front, after checking that it exists."""
        if not -self.depth - 1 <= index <= self.depth:
            raise ConfigError(
                f"layers: the encoder has no layer {index}. Allowed: 0 (embeddings) to {self.depth}, "
                f"or -1 (last) to {-self.depth - 1}."
            )
        return index % (self.depth + 1)

    @property
    def shapes(self) -> Shapes | None:
        """What its GPU programs are compiled for; None if it is not a BERT-like encoder."""
        config = self.body.config
        names = ("num_attention_heads", "intermediate_size", "layer_norm_eps", "attention_probs_dropout_prob")
        heads, inner, eps, dropout = (getattr(config, name, None) for name in names)
        if not self.packs or not heads or not inner:
            return None
        return Shapes(self.width, int(inner), int(heads), float(eps or 1e-12), float(dropout or 0.0))

    def embedded(self, ids: Tensor) -> Tensor:
        """(tokens, width) the word vectors of tokens."""
        return F.embedding(ids, self.body.get_input_embeddings().weight)

    def blank(self, token: int | None) -> Tensor:
        """(width,) a word vector that says nothing: of the token for a hidden word, else the mean of all."""
        words = self.body.get_input_embeddings().weight.detach()
        return words.mean(0) if token is None else words[token]

    def fuse_layers(self) -> None:
        """Norms and linear layers with a faster backward pass, for training on a GPU without compiling."""
        one_pass_layers.exchange(self.body)

    def compile_layers(self) -> None:
        """Fuse the small operations of each layer; all layers share one compiled program."""
        for layer in self._layers:
            layer.forward = torch.compile(layer.forward, dynamic=True)

    def lay_out(self) -> None:
        """Make prediction on a CPU fast: layers without modules if it has BERT's architecture, else packed ones."""
        self._quick = QuickLayers.of(self)
        if self._quick is None:
            packed_linear.exchange(self.body)

    def in_runtime(self) -> Encoder | None:
        """A copy whose layers run in ONNX Runtime in prediction; None if it does not have BERT's architecture."""
        if QuickLayers.of(self) is None:
            return None
        from treetop.features.encoder.runtime_layers import RuntimeLayers

        quick = copy.copy(self)
        quick._quick = RuntimeLayers(self)
        return quick

    def forward(self, packed: Packed, poolings: Sequence[Pooling], detached: Collection[str] = ()) -> dict[str, Tensor]:
        """Per view (rows, width); gradients reach the transformer from all views except those `detached`."""
        wanted = sorted({self.layer(index) for pooling in poolings for index in pooling.layers})
        plain = packed.vectors is None and not packed.ids.is_cuda
        if self._quick is not None and torch.is_inference_mode_enabled() and plain:
            states = self._quick.states(packed, wanted)
        else:
            states = self.module_states(packed, wanted)
        pooled: dict[tuple[str, int], Tensor] = {}
        views = {}
        for pooling in poolings:
            for index in map(self.layer, pooling.layers):
                if (pooling.kind, index) not in pooled:
                    pooled[pooling.kind, index] = of_sequences(states[index], packed, pooling.kind)
            vectors = torch.cat([pooled[pooling.kind, self.layer(i)] for i in pooling.layers], 1)
            view = self._of_rows(vectors, packed, pooling.name)
            views[pooling.name] = view.detach() if pooling.name in detached else view
        return views

    def _of_rows(self, vectors: Tensor, packed: Packed, name: str) -> Tensor:
        """(rows, width) from (sequences, width): where a text may have several windows, these are pooled."""
        if not packed.shape.windows:
            return vectors.index_select(0, packed.back)
        if name in self.windows:
            return self.windows[name](vectors, packed.back, packed.shape.rows)
        return averaged(vectors, packed.back, packed.shape.rows)

    def module_states(self, packed: Packed, wanted: Sequence[int]) -> dict[int, Tensor]:
        """Layer -> (tokens, width)."""
        return self._states(packed, wanted) if self.packs else self._padded_states(packed, wanted)

    def _states(self, packed: Packed, wanted: Sequence[int]) -> dict[int, Tensor]:
        extras = {"treetop_starts": packed.starts, "treetop_beyond": beyond_tiles(packed.shape.longest)}
        position = {"position_ids": packed.positions[None] + self.offset}
        words = {"input_ids": packed.ids} if packed.vectors is None else {"inputs_embeds": packed.vectors}
        states = self._run(wanted, **{name: tensor[None] for name, tensor in words.items()}, **position, **extras)
        return {index: state[0] for index, state in states.items()}

    def _padded_states(self, packed: Packed, wanted: Sequence[int]) -> dict[int, Tensor]:
        """The same by padding every sequence to the longest; what models that cannot be packed get."""
        shape = (packed.shape.sequences, packed.shape.longest)
        place = packed.sequence * shape[1] + packed.positions
        ids = torch.zeros(shape, dtype=torch.int64, device=packed.ids.device)
        ids.view(-1)[place] = packed.ids
        mask = torch.zeros_like(ids)
        mask.view(-1)[place] = 1
        if packed.vectors is None:
            states = self._run(wanted, input_ids=ids, attention_mask=mask)
        else:
            vectors = self.embedded(ids).flatten(0, 1).index_copy(0, place, packed.vectors)
            states = self._run(wanted, inputs_embeds=vectors.view(*shape, -1), attention_mask=mask)
        return {index: state.flatten(0, 1)[place] for index, state in states.items()}

    def _run(self, wanted: Sequence[int], **inputs: Any) -> dict[int, Tensor]:
        """One forward pass that records the hidden states of `wanted`."""
        caught: dict[int, Tensor] = {}
        self._catch.wanted, self._catch.states = frozenset(wanted), caught
        try:
            caught[self.depth] = self.body(**inputs).last_hidden_state  # after the final norm, if any
        finally:
            self._catch.wanted, self._catch.states = frozenset(), {}  # nothing is held until the next call
        return caught

    def _watch(self) -> None:
        """Hooks that keep hidden states; several threads may run the body at once, each keeps its own."""

        def keep(index: int) -> Any:
            def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
                if index in getattr(self._catch, "wanted", ()):
                    self._catch.states[index] = output[0] if isinstance(output, tuple) else output

            return hook

        def keep_first(_module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
            if 0 in getattr(self._catch, "wanted", ()):
                self._catch.states[0] = args[0] if args else kwargs["hidden_states"]

        self._layers[0].register_forward_pre_hook(keep_first, with_kwargs=True)
        for index, layer in enumerate(self._layers[:-1], 1):
            layer.register_forward_hook(keep(index))

    @torch.no_grad()
    def _probe(self) -> bool:
        """Whether packed and padded sequences give the same result; also finds where positions start."""
        was, _ = self.body.training, self.body.eval()
        count = min(40, self.vocabulary)
        offsets = np.array([0, 3, 7, 12])
        ids = np.random.default_rng(0).integers(min(5, count - 1), count, 12)
        device = self.body.get_input_embeddings().weight.device
        packed = TokenRows(ids, offsets, device).gather(np.arange(3))
        padding = getattr(self.body.config, "pad_token_id", None) or 0
        padded = self._padded_states(packed, [self.depth])[self.depth]
        if not torch.isfinite(padded).all():
            raise ModelError(f"encoder: the vectors it gives are not finite. {AGAIN}")
        agrees = False
        for start in dict.fromkeys([0, padding + 1]):  # RoBERTa's positions start after the padding id
            self.offset = start
            try:
                agrees = torch.allclose(self._states(packed, [self.depth])[self.depth], padded, atol=1e-3)
            except (TypeError, RuntimeError, ValueError, IndexError):
                agrees = False
            if agrees:
                break
        self.offset = self.offset if agrees else 0
        self.body.train(was)
        return agrees


def _build(source: Source, dropout: float | None, attention_dropout: float | None) -> Any:
    settings = dict(source.config)
    for key in ("architectures", "dtype", "torch_dtype", "_name_or_path", "transformers_version"):
        settings.pop(key, None)  # types we choose ourselves
    check_settings(settings, len(source.weights))  # before anything is built from them
    for key in [key for key in settings if key.endswith(("dropout", "dropout_prob"))]:
        chosen = attention_dropout if "attention" in key else dropout
        settings[key] = settings[key] if chosen is None else chosen
    config = known_config(settings)
    with quiet(transformers), torch.device("meta"):
        body: Any = transformers.AutoModel.from_config(config, attn_implementation=ATTENTION)
    if getattr(body, "pooler", None) is not None:
        body.pooler = None
    state = {key: torch.from_numpy(np.array(value)) for key, value in source.weights.items()}
    wanted = body.state_dict()
    wrong = [key for key in wanted if key not in state or state[key].shape != wanted[key].shape]
    if wrong:
        raise ModelError(f"encoder: weights '{wrong[0]}' are missing or of the wrong shape. Copy the encoder again.")
    body.load_state_dict({key: state[key].float() for key in wanted}, assign=True)
    return _with_buffers(body, config)


def _with_buffers(body: Any, config: Any) -> Any:
    """Buffers that are not stored (position numbers, rotary tables) exist only after a real construction."""
    stuck = {name for name, buffer in body.named_buffers() if buffer.is_meta}
    if stuck:
        with quiet(transformers), torch.random.fork_rng(devices=[]):
            real = transformers.AutoModel.from_config(config)
        values = dict(real.named_buffers())
        for name in stuck:
            owner, _, leaf = name.rpartition(".")
            setattr(body.get_submodule(owner), leaf, values[name])
    return body


def plain_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Encoder settings as JSON can hold them."""
    return json.loads(json.dumps(dict(config), default=str))
