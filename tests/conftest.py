"""Settings of all tests."""

import pytest
from hypothesis import HealthCheck, settings

from tests.browser.chromium import missing

# How long an example takes says something of the machine, and nothing of what is tested.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that share a process take longest, and begin first: others run beside them."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_report_header() -> str | None:
    """What is left out here, and why."""
    return f"tests/browser left out: {missing()}" if missing() else None
