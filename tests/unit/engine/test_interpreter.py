from __future__ import annotations

import platform
import sys
import venv
from pathlib import Path

import pytest
from draftgate.engine.interpreter import Interpreter, inspect_interpreter
from draftgate.errors import InterpreterError
from packaging.version import Version


@pytest.fixture(scope="module")
def bare_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    return folder


def install(environment: Path, version: str) -> Path:
    """Put the metadata of an SGLang of this version where pip would."""
    [site] = environment.glob("lib/python*/site-packages")
    for old in site.glob("sglang-*.dist-info"):
        (old / "METADATA").unlink()
        old.rmdir()
    info = site / f"sglang-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n")
    return environment / "bin" / "python"


def test_the_version_and_prefix_of_another_environment(bare_environment: Path) -> None:
    python = install(bare_environment, "0.5.16")
    found = inspect_interpreter(python)
    software = {"python": platform.python_version(), "sglang": "0.5.16"}
    assert found == Interpreter(python, Version("0.5.16"), bare_environment, software)


def test_sglang_is_not_imported(bare_environment: Path) -> None:
    python = install(bare_environment, "0.5.16")
    [site] = bare_environment.glob("lib/python*/site-packages")
    (site / "sglang.py").write_text("raise SystemExit('imported')\n")
    try:
        assert inspect_interpreter(python).sglang_version == Version("0.5.16")
    finally:
        (site / "sglang.py").unlink()


@pytest.mark.parametrize("version", ["0.5.24", "0.5.23.post1"])
def test_a_newer_version_is_used(bare_environment: Path, version: str) -> None:
    found = inspect_interpreter(install(bare_environment, version))
    assert found.sglang_version == Version(version)


def test_an_old_version_is_refused(bare_environment: Path) -> None:
    python = install(bare_environment, "0.5.9")
    with pytest.raises(InterpreterError, match=r"SGLang 0\.5\.9; the oldest .* is 0\.5\.10"):
        inspect_interpreter(python)


def test_absent_sglang_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=False, symlinks=True)
    python = tmp_path / "empty" / "bin" / "python"
    with pytest.raises(InterpreterError) as caught:
        inspect_interpreter(python)
    assert f"{python} holds no SGLang" in str(caught.value)
    assert f"{python} -m pip install sglang==0.5.23" in str(caught.value)


def test_what_is_no_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InterpreterError, match="There is no interpreter at"):
        inspect_interpreter(tmp_path / "absent")
    with pytest.raises(InterpreterError, match="does not behave like a Python interpreter"):
        inspect_interpreter(Path("/bin/echo"))
    text = tmp_path / "text"
    text.write_text("hello")
    with pytest.raises(InterpreterError, match="cannot be run"):
        inspect_interpreter(text)


def test_the_own_interpreter_needs_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.5.20")
    monkeypatch.setattr("subprocess.run", None)
    found = inspect_interpreter(Path(sys.executable))
    assert found.python == Path(sys.executable)
    assert found.sglang_version == Version("0.5.20")
    assert found.prefix == Path(sys.prefix)
    assert found.software["torch"] == "0.5.20"
