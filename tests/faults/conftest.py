"""The scenarios, each made once."""

import pytest

from helpers.scenarios import SCENARIOS, Scenario


@pytest.fixture(scope="module", params=SCENARIOS)
def scenario(request, tmp_path_factory) -> Scenario:
    return SCENARIOS[request.param](tmp_path_factory.mktemp(request.param))
