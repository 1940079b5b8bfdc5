"""Names of a package that are imported at their first use (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy(package: str, modules: dict[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `modules` says where each name is.

    >>> lazy("box", {"sqrt": "math"})("sqrt")(9)
    3.0
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(modules[name]), name)

    return load
