"""The built-in pair run in plain PyTorch: what a server would return, without one."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from draftgate.diagnosis.alone import SITE
from draftgate.models.location import BUILTIN_FOLDER

from tests.rebuild.training.language import Language

PROMPT, NEW = 24, 128


@pytest.fixture(scope="session", autouse=True)
def replay_on_the_path():
    sys.path.insert(0, str(SITE))
    yield
    sys.path.remove(str(SITE))


@dataclass(frozen=True)
class Served:
    """Four greedy texts of the built-in target, and what training counts of a draft on them."""

    tokens: object
    """[4, prompt + new + 5]"""
    outputs: object
    """num_hidden_layers + 1 hidden states [4, T, 64]"""

    def states(self, layers):
        from tests.rebuild.training.network import layer_outputs

        return layer_outputs(self.outputs, layers)[:, :-1]

    def counted_in_training(self, draft: Path, layers, steps: int) -> tuple[int, ...]:
        from tests.rebuild.training.replay import replay, right_proposals
        from tests.rebuild.training.storage import load_draft, load_target

        network, target_ids = load_draft(draft)
        target = load_target(BUILTIN_FOLDER / "tiny")
        right = right_proposals(target, network, target_ids, layers, self.tokens, steps)
        return replay(right, PROMPT, NEW, steps).histogram


@pytest.fixture(scope="session")
def served() -> Served:
    torch = pytest.importorskip("torch")
    from tests.rebuild.training.replay import continue_greedily
    from tests.rebuild.training.storage import load_target

    target = load_target(BUILTIN_FOLDER / "tiny")
    prompts = torch.tensor(Language().held_out_documents(4, PROMPT))
    tokens = continue_greedily(target, prompts, NEW + 5)
    with torch.no_grad():
        return Served(tokens, target(tokens)[1])
