"""What all tests of audits share."""

import os

import pytest


@pytest.fixture(autouse=True, scope="module")
def _without_syncs():
    """Nothing here is about power cuts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield
