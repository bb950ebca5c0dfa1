from __future__ import annotations

from typing import Any

import pytest
from draftgate.errors import ModelError
from draftgate.models.config import aux_layer_ids, expected_fc_width


def draft(ids: list[int] | None = None, **others: Any) -> dict[str, Any]:
    config = {"hidden_size": 64, **others}
    if ids is not None:
        config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": ids}
    return config


@pytest.mark.parametrize(
    ("config", "width"),
    [
        pytest.param(draft([1, 3, 5]), 192, id="three taps"),
        pytest.param(draft([-1, 1, 3]), 192, id="embedding among them"),
        pytest.param(draft([1, 5]), 128, id="two taps"),
        pytest.param(draft(), 192, id="no eagle_config"),
        pytest.param(draft(eagle_config=None), 192, id="null eagle_config"),
        pytest.param(draft([]), 192, id="no ids count as none given"),
        pytest.param(draft([2, 30, 58], hidden_size=7168), 21504, id="Kimi-K2.5"),
        pytest.param(
            draft([2, 30, 58], hidden_size=6144, target_hidden_size=8192),
            24576,
            id="wide target",
        ),
        pytest.param(draft(target_hidden_size=None), 192, id="null target size"),
        pytest.param(draft([1, 3, 5], num_aux_hidden_states=4), 256, id="explicit count wins"),
        pytest.param(draft(num_aux_hidden_states=2), 128, id="explicit count alone"),
        pytest.param(draft(eagle_config={"use_aux_hidden_state": False}), 64, id="no aux states"),
        pytest.param(
            draft(eagle_config={"use_aux_hidden_state": False}, target_hidden_size=128),
            64,
            id="no aux states, wide target",
        ),
    ],
)
def test_width(config: dict[str, Any], width: int) -> None:
    assert expected_fc_width(config) == width


def test_layer_ids_keep_their_order() -> None:
    assert aux_layer_ids(draft([5, 1, 3])) == (5, 1, 3)


def test_layer_ids_at_the_top_level_have_no_effect() -> None:
    assert aux_layer_ids(draft(eagle_aux_hidden_state_layer_ids=[1, 3, 5])) is None


@pytest.mark.parametrize("ids", ["1,3,5", [1, "3", 5], [1, True, 5], {"a": 1}])
def test_layer_ids_of_a_wrong_type(ids: Any) -> None:
    with pytest.raises(ModelError, match="eagle_aux_hidden_state_layer_ids must be a list"):
        aux_layer_ids(draft(ids))


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({}, "hidden_size"),
        (draft(hidden_size="64"), "hidden_size"),
        (draft(target_hidden_size=0), "target_hidden_size"),
        (draft(num_aux_hidden_states=-1), "num_aux_hidden_states"),
        (draft(num_aux_hidden_states=True), "num_aux_hidden_states"),
    ],
)
def test_sizes_that_cannot_be(config: dict[str, Any], key: str) -> None:
    with pytest.raises(ModelError, match=f"^config.json: {key} must be a positive integer"):
        expected_fc_width(config)


def test_eagle_config_of_a_wrong_type() -> None:
    with pytest.raises(ModelError, match="eagle_config must be an object, not 'x'"):
        expected_fc_width(draft(eagle_config="x"))
