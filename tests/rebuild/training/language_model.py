"""A chat model run by transformers: its hidden states, and text of its own, many rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.rebuild.training.chat_prompts import Messages


@dataclass(frozen=True)
class Text:
    """S prompts, each with as many new tokens behind it.

    ``tokens`` [S, T] begin at the left; what follows a row's prompt and its new tokens is padding.
    """

    tokens: Tensor
    prompt_lengths: Tensor
    new_tokens: int

    def rows(self, chosen: slice | Tensor) -> Text:
        return Text(self.tokens[chosen], self.prompt_lengths[chosen], self.new_tokens)

    def split(self, count: int) -> list[Text]:
        """Parts of at most ``count`` rows."""
        starts = range(0, len(self.tokens), count)
        return [self.rows(slice(start, start + count)) for start in starts]

    def is_new(self) -> Tensor:
        """bool [S, T]: the tokens that the model wrote."""
        behind = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        behind = behind - self.prompt_lengths[:, None]
        return (behind >= 0) & (behind < self.new_tokens)


class LanguageModel:
    """The model in a folder, in bfloat16, frozen; called like ``network.Target``."""

    def __init__(self, folder: Path, device: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        self._model = self._model.to(device).eval().requires_grad_(False)
        self.device = device

    @torch.no_grad()
    def __call__(self, tokens: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
        """Logits [B, T, vocabulary] and the residual stream before the first layer and after each,
        except that the last one is normed."""
        out = self._model(tokens, output_hidden_states=True, use_cache=False)
        return out.logits, out.hidden_states

    def embed(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self._model.get_input_embeddings()(tokens)
        return embedded.float()

    @property
    def head(self) -> Tensor:
        """[vocabulary, H]"""
        weight: Tensor = self._model.get_output_embeddings().weight
        return weight

    @property
    def final_norm(self) -> Tensor:
        """[H]"""
        weight: Tensor = self._model.model.norm.weight
        return weight

    def render(self, messages: Messages) -> list[int]:
        """Token ids of a conversation up to where the assistant's turn begins."""
        text = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def own_prompts(self, count: int, most_tokens: int, temperature: float) -> list[list[int]]:
        """Conversations up to where the assistant's turn begins, the user's turn drawn from the
        model itself: as varied as what it was trained on."""
        turn = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": "?"}], tokenize=False
        )
        opening: list[int] = self.tokenizer.encode(turn.partition("?")[0], add_special_tokens=False)
        drawn = self.continued([opening] * count, most_tokens, temperature).tokens
        written = self.tokenizer.batch_decode(drawn[:, len(opening) :])
        turns = (text.partition(self.tokenizer.eos_token)[0] for text in written)
        return [self.render([{"role": "user", "content": turn}]) for turn in turns]

    @torch.no_grad()
    def continued(
        self, prompts: Sequence[Sequence[int]], new_tokens: int, temperature: float = 0.0
    ) -> Text:
        """The prompts with what the model writes, its end-of-text tokens ignored; 0.0 is greedy.

        Raises FloatingPointError: its logits are no numbers, so that the text is none either.
        """
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        width = int(lengths.max())
        padding = width - lengths
        tokens = torch.tensor(
            [[0] * (width - len(prompt)) + list(prompt) for prompt in prompts], device=self.device
        )
        mask = (torch.arange(width, device=self.device) >= padding[:, None]).long()
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        read, cache = tokens, None
        for _ in range(new_tokens):
            out = self._model(
                read,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache = out.past_key_values
            read = _choose(out.logits[:, -1].float(), temperature)
            tokens = torch.cat([tokens, read], dim=1)
            mask = torch.cat([mask, torch.ones_like(read)], dim=1)
            positions = positions[:, -1:] + 1
        if not torch.isfinite(out.logits).all():
            raise FloatingPointError("the model's logits are not finite; is padding masked right?")
        places = torch.arange(tokens.shape[1], device=self.device) + padding[:, None]
        return Text(tokens.gather(1, places % tokens.shape[1]), lengths, new_tokens)


def _choose(logits: Tensor, temperature: float) -> Tensor:
    if temperature == 0.0:
        return logits.argmax(-1, keepdim=True)
    return torch.multinomial((logits / temperature).softmax(-1), 1)
