"""The fault table: what files alone show is shown here; the rest is `python -m tests.faults`."""

from __future__ import annotations

import pytest
from draftgate.cli import main
from draftgate.errors import ModelError
from draftgate.models.location import locate

from tests.faults.pairs import PAIRS, TINY
from tests.faults.run import run, write_profile
from tests.faults.table import DOCS, judge, marks, never_run, read_results, render

pytest.importorskip("torch")
PLANTED = [(pair, name) for pair in PAIRS for name in PAIRS[pair].planted]
SEEN_BEFORE = [(pair, name) for pair, name in PLANTED if PAIRS[pair].planted[name].before]


@pytest.fixture
def lint(tmp_path, capsys):
    """Exit code and output of `draftgate lint` on the server of one fault."""

    def lint(pair, fault):
        try:
            locate(pair.target)
        except ModelError as error:
            pytest.skip(str(error))
        write_profile(pair, fault, tmp_path)
        steps, topk, tokens = fault.numbers
        server = f"planted/planted-s{steps}k{topk}d{tokens}/*"
        profiles = ["--profiles", str(tmp_path / "planted.toml")]
        version = ["--sglang-version", "0.5.23"]
        code = main(["lint", "--profile", server, *profiles, *version])
        return code, " ".join(capsys.readouterr().out.split())

    return lint


@pytest.mark.parametrize(("pair", "name"), SEEN_BEFORE)
def test_files_and_flags_that_cannot_be_right_are_named_before_the_boot(lint, pair, name):
    fault = PAIRS[pair].planted[name]
    code, out = lint(PAIRS[pair], fault)
    assert (code, fault.before.words in out) == (1, True), out


@pytest.mark.parametrize(("pair", "name"), [one for one in PLANTED if one not in SEEN_BEFORE])
def test_files_that_may_be_right_raise_no_alarm(lint, pair, name):
    fault = PAIRS[pair].planted[name]
    code, out = lint(PAIRS[pair], fault)
    assert code == 0, out
    assert f"0 errors, {1 if fault.warned else 0} warning" in out
    assert fault.warned in out


@pytest.mark.extended
def test_what_only_the_running_engine_shows_is_caught_live(tmp_path):
    live = TINY.faults["fed-swapped"].live
    seen = run(TINY, "fed-swapped", tmp_path, preflight=True)
    assert seen.test == live.test
    assert live.words in " ".join(seen.message.split())
    assert len(seen.message.splitlines()) <= 15


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_every_fault_was_caught_by_the_check_that_names_it_and_no_control_was(pair):
    results = read_results(pair)
    assert never_run(pair, results) + judge(pair, results) == []


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_the_docs_hold_the_table_of_what_was_seen(pair):
    begin, end = marks(pair)
    table = DOCS.read_text(encoding="utf-8").split(begin)[1].split(end)[0]
    assert table.strip() == render(pair, read_results(pair))
