"""Before any server: what the pair's files, the flags and the environment cannot mean."""

from __future__ import annotations

import pytest
from draftgate.preflight.case import errors

pytestmark = pytest.mark.speculative


@pytest.mark.dg_check("pair")
def test_pair_and_flags_fit(spec, session):
    wrong = errors(session.findings(spec))
    if wrong:
        pytest.fail(f"{spec.id}: " + "\n".join(map(str, wrong)), pytrace=False)
