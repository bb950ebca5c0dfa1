from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from draftgate.preflight.options import (
    known_releases,
    main,
    nearest,
    options_in,
    options_of,
    release_for,
)
from packaging.version import Version


def test_the_record_spans_the_supported_releases() -> None:
    assert [str(release) for release in known_releases()] == [
        f"0.5.{number}" for number in range(10, 24)
    ]


@pytest.mark.parametrize(
    ("option", "first", "last"),
    [
        ("--cuda-graph-max-bs", 10, 19),
        ("--cuda-graph-max-bs-decode", 14, 23),
        ("--cuda-graph-backend-decode", 14, 23),
        ("--disable-piecewise-cuda-graph", 10, 19),
        ("--enable-piecewise-cuda-graph", 10, 13),
        ("--disable-cuda-graph", 10, 23),
        ("--forward-hooks", 10, 23),
    ],
)
def test_renamed_options_have_the_life_they_had(option: str, first: int, last: int) -> None:
    having = [release.micro for release in known_releases() if option in options_of(release)]
    assert having == list(range(first, last + 1))


def test_a_post_release_has_the_options_of_its_base() -> None:
    assert release_for(Version("0.5.10.post2")) == Version("0.5.10")
    assert release_for(Version("0.7.0")) is None
    assert release_for(Version("0.5.9")) is None


def test_the_nearest_option_prefers_a_longer_name() -> None:
    release = Version("0.5.23")
    assert nearest("--cuda-graph-max-bs", release) == "--cuda-graph-max-bs-decode"
    assert nearest("--speculative-num-step", release) == "--speculative-num-steps"
    assert nearest("--zzzzzz", release) is None


SOURCE = """
import argparse
from typing import Optional

class ServerArgs:
    plain: A[int, "help"] = 1
    joined: A[int, f"help {1}", NS("x")] = 1
    renamed_field: A[int, Arg(help="h", cli_name="--other-name", aliases=["--alias"])] = 1
    hidden: A[bool, Arg(no_cli=True)] = False
    either: A[bool, Arg(action=argparse.BooleanOptionalAction)] = False
    ordinary: int = 3

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", "--model", type=str)
        parser.add_argument("-v", "--switch", action=argparse.BooleanOptionalAction)
        parser.add_argument("positional")
"""


def test_options_are_read_from_both_ways_to_declare_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = {
        *("--plain", "--joined", "--other-name", "--alias", "--either", "--no-either"),
        *("--model-path", "--model", "--switch", "--no-switch"),
    }
    assert options_in({"server_args.py": SOURCE}) == expected
    wheel = tmp_path / "sglang-9.9.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sglang/srt/server_args.py", SOURCE)
        archive.writestr("sglang/srt/other.py", "parser.add_argument('--elsewhere')")
    assert main([str(wheel)]) == 0
    written = capsys.readouterr().out.splitlines()
    assert written == ["releases 9.9.9", *(f"{name} x" for name in sorted(expected))]
