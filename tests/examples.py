"""The number of examples that Hypothesis draws, and their random source.

The tests draw the same examples each time, whatever else runs beside them or ran before;
`make properties` draws others each time, and many more.
"""

import os
from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

GATE: Final = 10
"""Examples of a property that does not ask for more or fewer."""

MANY: Final = int(os.environ.get("EXAMPLES", "1000"))
"""The same for `make properties`."""

# The time of an example depends on the machine more than on the tested code.
COMMON: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def load_profiles() -> None:
    """Register both profiles, and use that of the tests; an option of pytest names the other."""
    settings.register_profile(
        "gate", COMMON, max_examples=GATE, derandomize=True, database=None, print_blob=True
    )
    settings.register_profile("properties", COMMON, max_examples=MANY, print_blob=True)
    settings.load_profile("gate")
    draw_no_constants_of_modules()


def draw_no_constants_of_modules() -> None:
    """Make Hypothesis's draws independent of the modules that are imported.

    It borrows numbers and texts from the source of each module of this project that is imported
    then, so the tests that ran before would change the examples of later ones.
    """
    assert hasattr(providers, "is_local_module_file"), (
        "this release of Hypothesis borrows constants in another way: adapt tests/examples.py"
    )
    providers.is_local_module_file = lambda path: False


def examples(count: int) -> settings:
    """Return settings for a property with this number of examples; `make properties` tries more.

    The proportion is that of all properties.
    """
    return settings(max_examples=max(1, count * settings().max_examples // GATE))
