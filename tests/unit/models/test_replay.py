"""The walk of a replay, on matches given by hand."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.rebuild.training.replay import Replay, replay  # noqa: E402


def rows(*accepted: int) -> list[list[bool]]:
    """One row per number: so many right proposals of three, then a wrong one."""
    return [[place < count for place in range(3)] for count in accepted]


def test_walks_from_the_end_of_the_prompt_behind_every_accepted_token() -> None:
    # Prompt of 2: starts at row 1. 2 accepted -> row 4, 0 accepted -> row 5, 3 accepted: done.
    right = torch.tensor([rows(3, 2, 3, 3, 0, 3, 1, 1, 1)])
    result = replay(right, prompt_length=2, max_new_tokens=9, steps=3)
    assert result == Replay(new_tokens=1 + 3 + 1 + 4, histogram=(1, 0, 1, 1))
    assert result.verify_steps == 3
    assert result.acceptance_length == 3.0


def test_the_last_step_is_counted_whole_but_its_surplus_tokens_are_not() -> None:
    right = torch.tensor([rows(3, 2, 3, 3, 0, 3, 1, 1, 1)])
    assert replay(right, 2, 7, 3) == Replay(new_tokens=7, histogram=(1, 0, 1, 1))


def test_a_right_proposal_behind_a_wrong_one_does_not_count() -> None:
    right = torch.tensor([[[False, True, True]] * 4])
    assert replay(right, 2, 4, 3) == Replay(new_tokens=4, histogram=(3, 0, 0, 0))


def test_fewer_steps_than_were_proposed() -> None:
    right = torch.tensor([rows(3, 3, 3, 3, 3)])
    assert replay(right, 2, 5, 1) == Replay(new_tokens=5, histogram=(0, 2))


def test_documents_add_up() -> None:
    right = torch.tensor([rows(3, 3, 3, 3), rows(0, 0, 0, 0)])
    assert replay(right, 2, 4, 3) == Replay(new_tokens=4 + 4, histogram=(3, 0, 0, 1))


def test_text_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="4 rows are too few .* 5 are needed"):
        replay(torch.tensor([rows(3, 3, 3, 3)]), prompt_length=2, max_new_tokens=5, steps=3)
