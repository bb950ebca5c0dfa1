"""Writing profiles for the tests of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from draftgate.catalog.load import load_profile
from draftgate.catalog.spec import Profile
from draftgate.errors import ProfileError

HEAD = """
[target]
path = "builtin:tiny"
[drafts.eagle3]
path = "builtin:tiny-eagle3"
"""
CHAIN = """
[[servers]]
draft = "eagle3"
num_steps = 3
topk = 1
num_draft_tokens = 4
"""

Load = Callable[..., Profile]
Refusal = Callable[..., list[str]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write TOML to ``mine.toml`` and load it with an environment that holds only `environ`."""

    def write(text: str, environ: Mapping[str, str] | None = None) -> Profile:
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return load_profile(path, environ or {})

    return write


@pytest.fixture
def refusal(load: Load, tmp_path: Path) -> Refusal:
    """The lines of the ProfileError that some TOML raises, without the file's name."""

    def lines(text: str, environ: Mapping[str, str] | None = None) -> list[str]:
        with pytest.raises(ProfileError) as error:
            load(text, environ)
        head, *rest = str(error.value).splitlines()
        prefix = f"{tmp_path / 'mine.toml'}: "
        assert head.startswith(prefix)
        if not rest:
            return [head.removeprefix(prefix)]
        assert head == f"{prefix}{len(rest)} mistakes" or rest[-1].startswith("  and ")
        return [line.removeprefix("  ") for line in rest]

    return lines
