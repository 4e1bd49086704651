"""Packages whose names are imported when they are used first, so that importing them is quick."""

import importlib
from collections.abc import Callable, Mapping


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package.

    Args:
        package: its name.
        homes: of each of its names the module that has it; a module of the same name stands for
            itself if that is "".
    """

    def get(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not home:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(home), name)

    return get
