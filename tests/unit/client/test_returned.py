from __future__ import annotations

import pytest
from draftgate.client.replies import returned_width
from draftgate.errors import BadReply


def row(width: int) -> list[float]:
    return [0.5] * width


@pytest.mark.parametrize(
    "states",
    [
        pytest.param([[row(192)] * 24, row(192), row(192)], id="prompt block, then rows"),
        pytest.param([[row(192)] * 24], id="prompt block only"),
        pytest.param([[row(192)] * 16, [row(192)] * 8, row(192)], id="two prefill chunks"),
        pytest.param([row(192), row(192)], id="rows only"),
        pytest.param(row(192), id="one row (return mode last)"),
        pytest.param([[], row(192)], id="prompt found in the cache"),
    ],
)
def test_the_width_of_every_known_shape(states: object) -> None:
    assert returned_width(states) == 192


def test_whole_numbers_are_numbers() -> None:
    assert returned_width([[1, 2, 3], [0.5, 1, 2]]) == 3


def test_two_widths_are_named_with_their_counts() -> None:
    with pytest.raises(BadReply, match="24 rows of width 192, 2 rows of width 64"):
        returned_width([[row(192)] * 24, row(64), row(64)])


@pytest.mark.parametrize("states", [[], [[]], [[], []]])
def test_no_row_names_the_flag(states: object) -> None:
    with pytest.raises(BadReply, match="--enable-return-hidden-states"):
        returned_width(states)


@pytest.mark.parametrize("states", [None, "text", [None, row(4)], [[True, False]], [["a", "b"]]])
def test_other_things_than_numbers_are_refused(states: object) -> None:
    with pytest.raises(BadReply, match=r"expected|number"):
        returned_width(states)


def test_too_deep_a_nesting_is_refused() -> None:
    with pytest.raises(BadReply, match="nested deeper"):
        returned_width([[[[row(4)]]]])
