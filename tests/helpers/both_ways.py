"""Every test of a file that imports this fixture is run with compiled code and without."""

import pytest

from pfedul import compiled

WAYS = ["compiled", "torch"] if compiled.COMPILED else ["torch"]


@pytest.fixture(params=WAYS, autouse=True)
def compiled_or_not(request, monkeypatch) -> None:
    if request.param == "torch":
        monkeypatch.setattr(compiled, "COMPILED", False)
