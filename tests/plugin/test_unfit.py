"""What a user's own test may not ask of draftgate, and what pytest is not asked for with it."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import PROFILE

USAGE_ERROR = 4
NOTHING_RAN = 5
GREEN = "def test_plain(): pass\n"
UNITTEST = """
import unittest, pytest
class TestOld(unittest.TestCase):
    @pytest.mark.usefixtures("dg_server")
    def test_it(self):
        raise AssertionError
"""
AUTOUSE = """
import unittest, pytest
@pytest.fixture(autouse=True)
def up(dg_server): pass
class TestOld(unittest.TestCase):
    def test_it(self):
        raise AssertionError
"""
DOCTEST = """
'''
>>> 1
2
'''
import pytest
@pytest.fixture(autouse=True)
def up(dg_server): pass
"""
MARKED = "import pytest\n@pytest.mark.{}\ndef test_it({}): pass\n"
METHODS = "import pytest\n@pytest.mark.dg_check('mine')\nclass TestIt:\n" + "".join(
    f"    def test_{name}(self, dg_spec): pass\n" for name in "ab"
)
NESTED = "".join(
    f"class Test{name}:\n    class TestInner:\n        def test_it(self, dg_spec): pass\n"
    for name in "AB"
)


@pytest.fixture
def collect(elsewhere, run_elsewhere, fake_sglang):
    (elsewhere / "mine.toml").write_text(PROFILE)

    def run(code, *arguments, chosen=("--dg-profiles", "mine.toml")):
        (elsewhere / "test_mine.py").write_text(code)
        words = ("test_mine.py", "--collect-only", "-q", "--dg-server-python", str(fake_sglang))
        return run_elsewhere(*words, *chosen, *arguments)

    return run


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (UNITTEST, "test_mine.py::TestOld::test_it: unittest methods and doctests cannot take"),
        (AUTOUSE, "test_mine.py::TestOld::test_it: unittest methods and doctests cannot take"),
        (DOCTEST, "test_mine.py::test_mine: unittest methods and doctests cannot take"),
        (
            "def test_it(dg_servr): pass\n",
            "test_it: draftgate has no fixture dg_servr; did you mean",
        ),
        (MARKED.format("dg_speculative", ""), "test_it: it is marked dg_speculative and takes no"),
        (MARKED.format("dg_check", "dg_spec"), "test_it[mine/none/cpu]: dg_check: expected the id"),
        (MARKED.format("dg_check(id='a')", "dg_spec"), "dg_check: expected the id"),
        (MARKED.format("dg_check('flags')", "dg_spec"), "this is a check of the suite"),
        (METHODS, "a record calls both TestIt.test_a and TestIt.test_b mine"),
    ],
)
@pytest.mark.parametrize("chosen", [(), ("-m", "cpu")])
def test_what_cannot_be_is_a_usage_error(collect, code, message, chosen):
    run = collect(code + GREEN, "--doctest-modules", *chosen)
    assert run.code == USAGE_ERROR, run.text
    assert message in run.err
    assert "Traceback" not in run.text


@pytest.mark.parametrize("code", [UNITTEST, "def test_it(dg_servr): pass\n"])
def test_a_session_that_gives_no_option_hears_of_it_too(run_elsewhere, elsewhere, code):
    (elsewhere / "test_mine.py").write_text(code + GREEN)
    run = run_elsewhere("test_mine.py", "-m", "cpu")
    assert run.code == USAGE_ERROR, run.text
    assert "ERROR: test_mine.py::" in run.err


def test_it_is_said_of_workers_as_well(collect):
    run = collect(UNITTEST, "-n", "1")
    assert run.code == USAGE_ERROR, run.text
    assert "unittest methods and doctests cannot take a server" in run.text


def test_classes_in_classes_have_ids_of_their_own(collect):
    assert collect(NESTED).code == 0


@pytest.mark.parametrize("mark", ["skip", "xfail", "fail_at_collect"])
def test_a_test_without_a_server_is_deselected(collect, mark):
    code = MARKED.format("dg_on_gpu", "dg_server") + GREEN
    run = collect(code, "-o", f"empty_parameter_set_mark={mark}")
    assert run.code == 0, run.text
    assert "1/2 tests collected (1 deselected)" in run.out


def test_getfixturevalue_is_too_late(run_elsewhere, elsewhere):
    (elsewhere / "test_mine.py").write_text(
        "def test_it(request): request.getfixturevalue('dg_server')\n"
    )
    run = run_elsewhere("test_mine.py")
    assert run.code == 1
    assert "name dg_server among them, instead of request.getfixturevalue" in run.out
    assert "Error" not in run.out


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--dg-server", "*s9*"), "no server of mine matches '*s9*'"),
        (("--dg-profile", "mini"), "unknown profile 'mini'; did you mean 'mine'? There are"),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "gpu", "not gpu"])
def test_a_wrong_choice_is_no_other_with_a_device(collect, wrong, message, device):
    run = collect("def test_it(dg_server): pass\n", "-m", device, *wrong)
    assert run.code == USAGE_ERROR, run.text
    assert message in run.err


def test_a_profile_of_the_working_folder_is_named(collect):
    run = collect("def test_it(dg_server): pass\n", chosen=("--dg-profile", "mine"))
    assert run.code == USAGE_ERROR
    assert "unknown profile 'mine'; mine.toml lies in the working folder: add" in run.err


def test_the_suite_needs_pytest_benchmark(run_elsewhere):
    run = run_elsewhere("--pyargs", "draftgate.suite", "-p", "no:benchmark")
    assert run.code == USAGE_ERROR
    assert "the suite needs pytest-benchmark: leave out -p no:benchmark" in run.err


def test_nothing_needs_a_terminal(run_elsewhere, elsewhere, fake_sglang):
    (elsewhere / "mine.toml").write_text(PROFILE)
    (elsewhere / "test_mine.py").write_text("def test_it(dg_spec): pass\n")
    words = ("test_mine.py", "--dg-profiles", "mine.toml", "--dg-server-python", str(fake_sglang))
    run = run_elsewhere(*words, "-p", "no:terminal")
    assert run.code == 0, run.text


@pytest.mark.parametrize("module", ["draftgate", "draftgate.suite.test_2_flags"])
def test_a_package_above_the_suite_is_the_suite(run_elsewhere, module):
    run = run_elsewhere("--pyargs", module, "--collect-only", "--dg-profile", "tyny")
    assert run.code == USAGE_ERROR
    assert "unknown profile 'tyny'" in run.err
