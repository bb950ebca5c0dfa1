"""What a record says of the suite that made it."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

import draftgate
from draftgate.session.session import suite_commit


def test_in_its_checkout_it_is_the_commit(tmp_path, monkeypatch):
    package = checkout(tmp_path)
    monkeypatch.setattr(draftgate, "__file__", str(package / "__init__.py"))
    assert suite_commit() == commit(tmp_path)
    (package / "__init__.py").write_text("changed")
    assert suite_commit() == f"{commit(tmp_path)}-dirty"


def test_installed_into_somebody_s_checkout_it_is_the_version(tmp_path, monkeypatch):
    checkout(tmp_path)
    package = tmp_path / "venv" / "draftgate"
    package.mkdir(parents=True)
    monkeypatch.setattr(draftgate, "__file__", str(package / "__init__.py"))
    assert suite_commit() == version("draftgate")


def checkout(folder: Path) -> Path:
    """A checkout with the package in its place; its folder is returned."""
    package = folder / "fixtures" / "draftgate"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "one")):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    return package


def commit(folder: Path) -> str:
    words = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
