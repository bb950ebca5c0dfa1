from __future__ import annotations

import pytest
from draftgate.redact import (
    is_secret_name,
    redact,
    redact_command,
    redact_environment,
    secrets_of,
)


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD_X_PASSWORD", "TOKEN"],
)
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "PATH", "MONKEY", "KEYBOARD", "AUTHOR"])
def test_public_names(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("token hf_abcdefghijklmnopqrst!", "token ***!"),
        ("key sk-proj-abcdefghijklmnop", "key ***"),
        ("GET https://me:pass@host/x", "GET https://***@host/x"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("server_args={'api_key': 'k123', 'port': 1}", "server_args={'api_key': ***, 'port': 1}"),
        ("api_key=None, admin_api_key='z'", "api_key=None, admin_api_key=***"),
        ("--api-key VALUE --port 1", "--api-key *** --port 1"),
        ("max_new_tokens=128 accept len: 3.5", "max_new_tokens=128 accept len: 3.5"),
    ],
)
def test_shapes_of_secrets_are_masked(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_known_values_are_masked_wherever_they_stand() -> None:
    secrets = secrets_of({"MY_TOKEN": "planted-value", "PATH": "/usr/bin"}, ["--api-key=short"])
    assert secrets == {"planted-value", "short"}
    assert redact("x planted-value y short", secrets) == "x *** y ***"


def test_a_command_stays_readable() -> None:
    command = [
        "python",
        "--api-key",
        "abc",
        "--max-total-tokens",
        "8192",
        "--admin-api-key=q",
        "a b",
    ]
    assert (
        redact_command(command)
        == "python --api-key *** --max-total-tokens 8192 --admin-api-key=*** 'a b'"
    )
    assert secrets_of({}, command) == {"abc", "q"}


def test_an_environment_keeps_its_names() -> None:
    assert redact_environment({"HF_TOKEN": "x", "A": "hf_abcdefghijklmnopqrst", "B": "1"}) == {
        "HF_TOKEN": "***",
        "A": "***",
        "B": "1",
    }
