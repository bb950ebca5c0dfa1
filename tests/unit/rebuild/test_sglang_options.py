from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.rebuild.sglang_options import main, options_in

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
