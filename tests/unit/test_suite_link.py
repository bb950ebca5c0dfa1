"""The suite lies in tests/suite and is installed as `draftgate.suite`."""

from __future__ import annotations

from pathlib import Path

import draftgate

ROOT = Path(__file__).parent.parent.parent


def test_the_package_holds_the_suite_by_a_link_that_works_in_any_clone():
    link = Path(draftgate.__file__).parent / "suite"
    assert link.readlink() == Path("../../tests/suite")
    assert link.resolve() == ROOT / "tests" / "suite"
    assert (link / "__init__.py").is_file()
