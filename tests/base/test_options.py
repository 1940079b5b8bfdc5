"""Options that carry their help and limits, and the registries that apply them."""

from dataclasses import MISSING, dataclass, fields

import pytest

from pfedul.base.options import REQUIRED, check_options, is_option, option
from pfedul.base.registry import Registry, make_options
from pfedul.data.datasets import DATASETS
from pfedul.data.partitions import PARTITIONS
from pfedul.data.trigger import Trigger
from pfedul.errors import PfedulError
from pfedul.models import MODELS
from pfedul.personalization import PERSONALIZATIONS


@dataclass(frozen=True)
class ToyOptions:
    """One option of every sort, and a plain field."""

    size: int = option(REQUIRED, "how large", at_least=1)
    share: float = option(0.5, "how much", above=0, at_most=1)
    mode: str = option("slow", "how", choices=("slow", "fast"))
    limit: int | None = option(None, "where to stop", below=9)
    plain: int = -1

    def __post_init__(self) -> None:
        if self.mode == "fast" and self.size > 5:
            raise ValueError("a fast toy is small")


@dataclass(frozen=True)
class Toy:
    name: str = "toy"
    summary: str = "a toy"
    options: type = ToyOptions


TOY = Toy()
TOYS = Registry("toy", {"toy": f"{__name__}:TOY"})


def test_options_within_their_limits_are_taken():
    _, options = TOYS.parse("toy:3,share=1,mode=fast,limit=8,plain=-7")
    assert options == ToyOptions(3, 1.0, "fast", 8, -7)
    assert TOYS.canonical("toy:2") == "toy:size=2,share=0.5,mode=slow,plain=-1"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("toy:0", "was refused: size must be at least 1, not 0."),
        ("toy:1,share=0", "was refused: share must be above 0, not 0.0."),
        ("toy:1,share=1.1", "was refused: share must be at most 1, not 1.1."),
        ("toy:1,share=nan", "was refused: share must be a finite number, not nan."),
        ("toy:1,share=-inf", "was refused: share must be a finite number, not -inf."),
        ("toy:1,mode=odd", "was refused: mode is one of slow, fast, not 'odd'."),
        ("toy:1,limit=9", "was refused: limit must be below 9, not 9."),
        ("toy:6,mode=fast", "was refused: a fast toy is small."),
        ("toy", "needs a value for 'size'."),
    ],
)
def test_options_outside_their_limits_are_refused_in_one_sentence(text, reason):
    with pytest.raises(PfedulError) as refusal:
        TOYS.parse(text)
    assert str(refusal.value) == f"The toy 'toy' {reason}"


def test_options_are_checked_from_python_as_well():
    assert make_options("toy", ToyOptions, size=3) == ToyOptions(3)
    with pytest.raises(PfedulError, match="The toy was refused: size must be at least 1, not -2"):
        make_options("toy", ToyOptions, size=-2)


def test_a_dataclass_can_check_itself_and_say_how_its_fields_are_written():
    check_options(ToyOptions(1))
    with pytest.raises(PfedulError, match=r"^--size must be at least 1, not 0\.$"):
        check_options(ToyOptions(0))
    with pytest.raises(PfedulError, match=r"^size must be at least 1, not 0\.$"):
        check_options(ToyOptions(0), written=str)


@pytest.mark.parametrize("registry", [DATASETS, PARTITIONS, MODELS, PERSONALIZATIONS])
def test_every_option_has_a_help_text_and_a_default_within_its_limits(registry):
    for options in (*(entry.options for entry in registry), Trigger):
        assert all(is_option(spec) and spec.metadata["help"] for spec in fields(options))
        defaults = {spec.name: spec.default for spec in fields(options)}
        make_options("entry", options, **{**defaults, **_required(options)})


def _required(options: type) -> dict[str, str]:
    return {spec.name: "a.npz" for spec in fields(options) if spec.default is MISSING}
