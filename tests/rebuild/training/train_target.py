"""Train the built-in target.

Next-token loss alone gives a target whose neighbouring layers look alike: a draft then accepts
nearly as much when its hidden states come from a wrong layer, and a capture that moved by one
layer goes unseen. Two further losses, used in training only, make every layer its own:

- *code*: throw-away heads predict tokens further ahead from every layer, through a vocabulary
  permutation of the layer's own, so that each layer must write the future in another code;
- *cosine*: neighbouring layers are pushed towards orthogonal hidden states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.rebuild.training.batches import learning_rate_factor, training_batch
from tests.rebuild.training.language import Language
from tests.rebuild.training.network import Shape, Target, initialize
from tests.rebuild.training.optimizer import Muon

TARGET_CONFIG: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "rope_theta": 10000.0,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

STEPS = 450
MUON_LEARNING_RATE = 0.02
ADAM_LEARNING_RATE = 4e-3
WARM_UP_STEPS = 20
DECAY_FROM = 0.5
CODE_WEIGHT = 1.0
COSINE_WEIGHT = 0.5
CODE_HEADS = 4  # they predict the tokens 2, 3, 4 and 5 positions ahead
REPORT_EVERY = 50

Report = Callable[[str], None]


def train_target(seed: int, report: Report) -> Target:
    """Train for ``STEPS`` steps on the CPU; the same seed gives the same weights."""
    generator = torch.Generator().manual_seed(seed)
    language = Language(seed)
    target = Target(Shape.from_config(TARGET_CONFIG))
    initialize(target, generator)
    code_loss = LayerCodes(target.shape, generator)
    everything = [*target.parameters(), *code_loss.parameters()]
    muon, adam = _optimizers(target, code_loss)
    for step in range(STEPS):
        factor = learning_rate_factor(step, STEPS, WARM_UP_STEPS, DECAY_FROM)
        muon.param_groups[0]["lr"] = MUON_LEARNING_RATE * factor
        adam.param_groups[0]["lr"] = ADAM_LEARNING_RATE * factor
        tokens = training_batch(language, generator)
        logits, hidden_states = target(tokens[:, :-1])
        # From position 1 on: the header's letter is random and nothing predicts it.
        next_token = F.cross_entropy(logits[:, 1:].flatten(0, 1), tokens[:, 2:].flatten())
        code = code_loss(hidden_states, tokens)
        cosine = neighbour_similarity(hidden_states)
        loss = next_token + CODE_WEIGHT * code + COSINE_WEIGHT * cosine
        loss.backward()
        nn.utils.clip_grad_norm_(everything, 1.0)
        for optimizer in (muon, adam):
            optimizer.step()
            optimizer.zero_grad()
        if step % REPORT_EVERY == 0 or step == STEPS - 1:
            report(
                f"target step {step}: next token {next_token.item():.3f},"
                f" code {code.item():.2f}, cosine {cosine.item():.3f}"
            )
    return target


class LayerCodes(nn.Module):
    """The code loss. Its heads are shared by all layers; its permutations differ per layer."""

    permutations: Tensor

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.heads = nn.ModuleList(
            nn.Linear(shape.hidden_size, shape.vocab_size, bias=False) for _ in range(CODE_HEADS)
        )
        initialize(self.heads, generator)
        codes = [
            torch.stack(
                [torch.randperm(shape.vocab_size, generator=generator) for _ in range(CODE_HEADS)]
            )
            for _ in range(shape.num_hidden_layers - 1)
        ]
        self.register_buffer("permutations", torch.stack(codes))
        self._eps = shape.rms_norm_eps

    def forward(self, hidden_states: Sequence[Tensor], tokens: Tensor) -> Tensor:
        """Mean cross-entropy over the outputs of all layers but the last, and over all heads.

        ``hidden_states`` belong to ``tokens[:, :-1]``.
        """
        losses = []
        for hidden, codes in zip(hidden_states[1:-1], self.permutations, strict=True):
            scaled = F.rms_norm(hidden, hidden.shape[-1:], eps=self._eps)
            for ahead, (head, code) in enumerate(zip(self.heads, codes, strict=True), start=2):
                logits = head(scaled[:, 1 : 1 - ahead])
                labels = code[tokens[:, 1 + ahead :]]
                losses.append(F.cross_entropy(logits.flatten(0, 1), labels.flatten()))
        return torch.stack(losses).mean()


def neighbour_similarity(hidden_states: Sequence[Tensor]) -> Tensor:
    """Mean squared cosine between hidden states one or two layers apart.

    The two header tokens are left out: every document of a header begins alike.
    """
    directions = [F.normalize(hidden[:, 2:], dim=-1) for hidden in hidden_states]
    similarities = [
        (directions[layer] * directions[layer + apart]).sum(-1).square().mean()
        for apart in (1, 2)
        for layer in range(len(directions) - apart)
    ]
    return torch.stack(similarities).mean()


def _optimizers(target: Target, code_loss: LayerCodes) -> tuple[Muon, torch.optim.AdamW]:
    """Muon for the matrices of the layers, AdamW for embedding, heads and norms."""
    matrices: list[nn.Parameter] = []
    others = list(code_loss.parameters())
    for name, parameter in target.named_parameters():
        in_layer = name.startswith("model.layers.") and parameter.dim() == 2
        (matrices if in_layer else others).append(parameter)
    adam = torch.optim.AdamW(others, ADAM_LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.0)
    return Muon(matrices, MUON_LEARNING_RATE), adam
