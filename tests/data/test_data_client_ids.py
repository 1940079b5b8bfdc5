"""Names of clients."""

from __future__ import annotations

import pytest

from pfedul.data.checks import CLIENT_ID, check_ids, clean_id, numbered_ids
from pfedul.errors import PfedulError


@pytest.mark.parametrize(("count", "last"), [(1, "client-00"), (100, "client-99")])
def test_numbers_have_at_least_two_digits(count, last):
    assert numbered_ids(count)[-1] == last


def test_numbers_have_equal_width_and_sort_as_they_count():
    names = numbered_ids(101)
    assert (names[0], names[-1]) == ("client-000", "client-100")
    assert names == sorted(names)
    check_ids(names)


@pytest.mark.parametrize("name", ["../x", ".hidden", "_a", "a" * 99, "été", "a b", "x\n"])
def test_cleaned_names_are_safe(name):
    assert CLIENT_ID.fullmatch(clean_id(name))


def test_safe_names_stay_as_they_are():
    assert clean_id("f3851_15.A-b") == "f3851_15.A-b"


@pytest.mark.parametrize("name", ["", ".", "../x", "a/b", "-a", "a b", "a\n", "é", "a" * 65, 3])
def test_unsafe_names_are_refused(name):
    with pytest.raises(PfedulError, match="is not allowed"):
        check_ids(["fine", name])


def test_names_that_differ_only_by_case_are_refused():
    with pytest.raises(PfedulError, match="'Bob' and 'bob' differ only by case"):
        check_ids(["Bob", "alice", "bob"])
