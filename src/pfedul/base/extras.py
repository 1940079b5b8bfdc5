"""Software that pfedul uses where it is installed, and does without elsewhere."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pfedul.errors import PfedulError


def needed(module: str, purpose: str, install: str) -> Any:
    """A module that is no requirement of pfedul, imported now.

    >>> needed("json", "Text", "json").dumps([1])
    '[1]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        missing = (error.name or module).partition(".")[0]
        raise PfedulError(
            f"{purpose} needs {missing}, which cannot be imported ({error}); "
            f"run: pip install '{install}'"
        ) from None
