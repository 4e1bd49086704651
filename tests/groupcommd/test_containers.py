"""Daemons join by names, and their addresses change, where this host allows namespaces."""

import re

import pytest

from tests.groupcommd.namespaces import why_not
from tests.verification.campaigns.runner import NotHere, figures_of


@pytest.mark.long
def test_it_runs_or_says_why_it_cannot() -> None:
    if reason := why_not():
        with pytest.raises(NotHere, match=re.escape(reason)):
            figures_of("containers --rounds 1")
    else:
        assert figures_of("containers --rounds 1")["longest_view_s"]
