"""Options that were given where they mean nothing."""

import argparse
from collections.abc import Callable, Collection, Iterator


def changed_options(
    options: argparse.Namespace,
    add_options: Callable[[argparse.ArgumentParser], None],
    allowed: Collection[str],
) -> Iterator[str]:
    """Options, as they are written, that are not allowed and have not their usual value.

    Args:
        options: as parsed.
        add_options: declares them.
        allowed: the names of those that may have any value.
    """
    defaults = argparse.ArgumentParser()
    add_options(defaults)
    for name, default in vars(defaults.parse_args([])).items():
        if name not in allowed and getattr(options, name) != default:
            yield f"--{name.replace('_', '-')}"
