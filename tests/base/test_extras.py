"""Software that is no requirement."""

import pytest

from pfedul.base.extras import needed
from pfedul.errors import PfedulError


def test_the_package_that_is_missing_is_named(tmp_path, monkeypatch):
    """It may be one that the module needs itself."""
    (tmp_path / "tracker_with_needs.py").write_text("import nowhere_to_be_seen.part")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PfedulError, match="A tracker needs nowhere_to_be_seen, which cannot"):
        needed("tracker_with_needs", "A tracker", "tracker")
    with pytest.raises(PfedulError, match=r"needs not_there_either, which.*pip install 'there'"):
        needed("not_there_either.part", "A tracker", "there")
