"""Options of all methods: what is not a finite number is refused before anything is done."""

from dataclasses import fields
from typing import get_type_hints

import pytest

from pfedul.errors import PfedulError
from pfedul.unlearn.methods import METHODS


def number_options() -> list[str]:
    """`method:option` of every option that takes a number with a point."""
    return [
        f"{method.name}:{spec.name}"
        for method in METHODS
        for spec in fields(method.options)
        if get_type_hints(method.options)[spec.name] in (float, float | None)
    ]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1"])
@pytest.mark.parametrize("option", number_options())
def test_a_number_that_makes_no_sense_is_refused_in_one_sentence(option, value):
    with pytest.raises(PfedulError, match="was refused") as refusal:
        METHODS.parse(f"{option}={value}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "spec",
    [
        *("fedosd:rounds=0", "fedosd:lr=0", "fedosd:recovery=-1", "fedosd:recovery_lr=0"),
        *("pga:rounds=0", "pga:ascent=0", "pga:lr=0", "pga:stop=1"),
        *("not:rounds=0", "not:epochs=0"),
    ],
)
def test_a_number_out_of_range_is_refused(spec):
    with pytest.raises(PfedulError, match="refused"):
        METHODS.parse(spec)


def test_there_are_such_options():
    assert len(number_options()) > 20
