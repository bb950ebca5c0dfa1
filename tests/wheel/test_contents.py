"""What the wheel holds and what an environment has of it."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import ROOT
from tests.wheel.conftest import environment

NEEDED = (
    "catalog/profiles/tiny.toml",
    "cpu_engine/site/sgl_kernel/__init__.py",
    "diagnosis/site/draftgate_replay/__main__.py",
    "models/builtin/prompts/chat.jsonl",
    "models/builtin/tiny-eagle3/model.safetensors",
    "models/builtin/tiny/model.safetensors",
    "preflight/options.txt",
    "probes/site/draftgate_probes/hooks.py",
    "random_weights/site/draftgate_random_weights.py",
    "report/page.html.jinja",
    "suite/__init__.py",
    "suite/test_1_pair.py",
)
MOST_MB = 12.0


def packages() -> Path:
    (folder,) = environment("alone").parents[1].glob("lib/python*/site-packages")
    return folder


def installed() -> dict[str, int]:
    """Sizes of what the wheel installed, by path."""
    (table,) = packages().glob("draftgate-*.dist-info/RECORD")
    lines = (line.rsplit(",", 2) for line in table.read_text().splitlines())
    return {path: int(size or 0) for path, _, size in lines}


def files(folder: Path) -> set[str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)) for path in found if "__pycache__" not in path.parts}


def test_the_wheel_holds_every_file_of_the_package_and_of_the_suite_and_no_other():
    package = {f"draftgate/{path}" for path in files(ROOT / "fixtures" / "draftgate")}
    suite = {f"draftgate/suite/{path}" for path in files(ROOT / "tests" / "suite")}
    held = {path for path in installed() if path.startswith("draftgate/")}
    assert {path for path in held if "__pycache__" not in path} == package | suite
    assert {f"draftgate/{path}" for path in NEEDED} <= held


def test_nothing_but_draftgate_is_installed_at_the_top():
    top = {Path(path).parts[0] for path in installed()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"draftgate", ".."}
    assert [path for path in installed() if path.startswith("..")] == ["../../../bin/draftgate"]
    assert not {"fixtures", "tests", "sglang", "torch"} & {p.name for p in packages().iterdir()}


def test_the_wheel_is_of_a_size_that_installs_in_seconds():
    (wheel,) = (environment("alone").parents[2] / ".pkg" / "dist").glob("draftgate-*.whl")
    assert wheel.stat().st_size / 1e6 < MOST_MB
