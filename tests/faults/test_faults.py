"""The fault table: what files alone show is shown here; the rest is `python -m tests.faults`."""

from __future__ import annotations

import pytest

from fixtures.cli import main
from tests.faults.catalogue import CONTROLS, FAULTS
from tests.faults.run import run, write_profile
from tests.faults.table import BEGIN, DOCS, END, judge, never_run, read_results, render

pytest.importorskip("torch")


@pytest.fixture
def lint(tmp_path, capsys):
    """Exit code and output of `draftgate lint` on the server of one fault."""

    def lint(fault):
        write_profile(fault, tmp_path)
        steps, topk, tokens = fault.numbers
        server = f"planted/planted-s{steps}k{topk}d{tokens}/cpu"
        profiles = ["--profiles", str(tmp_path / "planted.toml")]
        version = ["--sglang-version", "0.5.23"]
        code = main(["lint", "--profile", server, *profiles, *version])
        return code, " ".join(capsys.readouterr().out.split())

    return lint


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.before])
def test_files_and_flags_that_cannot_be_right_are_named_before_the_boot(lint, name):
    code, out = lint(FAULTS[name])
    assert (code, FAULTS[name].before.words in out) == (1, True), out


@pytest.mark.parametrize(
    "name", [*CONTROLS, *(name for name, fault in FAULTS.items() if not fault.before)]
)
def test_files_that_may_be_right_raise_no_alarm(lint, name):
    fault = {**FAULTS, **CONTROLS}[name]
    code, out = lint(fault)
    assert code == 0, out
    assert f"0 errors, {1 if fault.warned else 0} warning" in out
    assert fault.warned in out


@pytest.mark.extended
def test_what_only_the_running_engine_shows_is_caught_live(tmp_path):
    fault = FAULTS["fed-swapped"]
    seen = run(fault, tmp_path, preflight=True)
    assert seen.test == fault.live.test
    assert fault.live.words in " ".join(seen.message.split())
    assert len(seen.message.splitlines()) <= 15


def test_every_fault_was_caught_by_the_check_that_names_it_and_no_control_was():
    results = read_results()
    assert never_run(results) + judge(results) == []


def test_the_docs_hold_the_table_of_what_was_seen():
    table = DOCS.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]
    assert table.strip() == render(read_results())
