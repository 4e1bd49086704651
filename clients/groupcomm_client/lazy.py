"""Packages that import a name when it is first used, so that importing them is quick."""

import importlib
from collections.abc import Callable, Mapping


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package.

    Args:
        package: the name of the package.
        homes: the module of each name; "" for a name that is itself a module of the package.
    """

    def get(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not home:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(home), name)

    return get
