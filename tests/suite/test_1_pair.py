"""Before any server: what the pair's files, the flags and the environment cannot mean."""

from __future__ import annotations

import pytest
from draftgate.preflight.case import errors

pytestmark = pytest.mark.dg_speculative


@pytest.mark.dg_check("pair")
def test_pair_and_flags_fit(dg_spec, dg_session):
    wrong = errors(dg_session.findings(dg_spec))
    if wrong:
        pytest.fail(f"{dg_spec.id}: " + "\n".join(map(str, wrong)), pytrace=False)
