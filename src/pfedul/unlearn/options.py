"""The options of `forget`: how a removal is planned, corrected, recalibrated and repaired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from pfedul.base.names import DISTIL, ORDINARY, REPAIRS
from pfedul.base.options import check_options, option, option_name, refuse_unknown
from pfedul.base.registry import write
from pfedul.errors import PfedulError
from pfedul.personalization.base import Recalibration
from pfedul.store.requests import ASKED, LEVEL, PENDING, Request
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.pfedul.corrections import CORRECTIONS
from pfedul.unlearn.pfedul.result import PLAN, PlanOptions

if TYPE_CHECKING:
    from pfedul.unlearn.base import Method
    from pfedul.unlearn.pfedul.corrections.base import Correction

PAPERS_EPOCHS = 2
"""E_r of the paper."""

USUAL_ROUNDS, ROUNDS_OF_SHARE = 2, 15
"""Repair rounds after `exclude`: what they give and cost is in docs/results.md."""

SHORTCUTS = ("strength", "step", "clip", "fraction", "toward")
"""Options of single corrections that have their own command-line options."""

OF_PFEDUL = (
    *("alpha", "correction", *SHORTCUTS, "at_least", "scores", "intensity", "layers"),
    "fisher_noise",
)
"""Options of pFedUL's plan, which other methods do not have."""


REPAIR, SELDOM = "Repair and recalibration", "Seldom needed"
"""Headings of options in the help."""


def _as_in_plan(name: str) -> Any:
    """A field with the default, help and limits of the plan's option of that name."""
    spec = PlanOptions.__dataclass_fields__[name]
    return field(default=spec.default, metadata=spec.metadata)


@dataclass(frozen=True)
class ForgetOptions:
    """The defaults forget; `correction="paper"` is Algorithm 1 as published (Section 4.1)."""

    method: str = option("pfedul", "How to forget; see 'pfedul methods'.", registry=METHODS)
    alpha: float = _as_in_plan("alpha")
    correction: str = option(
        "exclude", "How the shared layers are corrected, with its options.", registry=CORRECTIONS
    )
    strength: float | None = option(
        None, "How far 'exclude' goes; 1: all the way.", above=0, at_most=1, group=PLAN
    )
    step: float | None = option(
        None, "Step size of the correction 'paper' (0.1).", above=0, group=PLAN
    )
    clip: float | None = option(
        None,
        "Bound of 'paper' and 'trust-region', relative to the layer (0.01).",
        above=0,
        group=PLAN,
    )
    fraction: float | None = option(
        None, "Fraction of entries that 'reset' resets (0.2).", above=0, at_most=1, group=PLAN
    )
    toward: str | None = option(
        None,
        "Direction of 'trust-region': the paper's, or back.",
        choices=("away", "init"),
        group=PLAN,
    )
    at_least: int = _as_in_plan("at_least")
    scores: str = _as_in_plan("scores")
    intensity: str = _as_in_plan("intensity")
    layers: str | None = _as_in_plan("layers")
    fisher_noise: float = _as_in_plan("fisher_noise")
    recalibration_epochs: int | None = option(
        None,
        "Epochs of recalibration at the rate of training, 2 in the paper; without a number only "
        "corrections by the Fisher record do so, and all else recalibrates until it converges.",
        at_least=1,
        group=REPAIR,
    )
    no_recalibration: bool = option(
        False, "Leave the remaining clients' personal parts alone.", group=REPAIR
    )
    recalibrate: bool = option(
        False,
        "Recalibrate after any method; 'pfedul', controls and repair rounds always do.",
        group=REPAIR,
    )
    affine: bool = option(False, "FedBN: recalibrate weights and biases, too.", group=REPAIR)
    repair_rounds: int | None = option(
        None,
        "Rounds of one epoch on the shared part, before recalibration; without a number "
        f"{USUAL_ROUNDS} after the correction 'exclude' (3 for a fifth of the samples, 5 for a "
        "third; twice as many with FedAvg and FedBN), else none.",
        at_least=0,
        group=REPAIR,
    )
    repair: str | None = option(
        None,
        "'distil': repair rounds also learn from each client's own old model; 'ordinary': from its "
        "data alone. 'distil' unless the method starts over.",
        choices=REPAIRS,
        group=REPAIR,
    )
    allow_unchanged: bool = option(
        False,
        "Go on if the shared tensors would stay as they are; else that is an error.",
        group=SELDOM,
    )
    forget_records: str = option(
        "target",
        "'all': delete every client's record and keep only the sum.",
        choices=("target", "all"),
        group=SELDOM,
    )
    seed: int | None = option(
        None, "Seed of what is random in forgetting; that of the run.", at_least=0, group=SELDOM
    )

    def __post_init__(self) -> None:
        _check_form(self.method)
        check_options(self)
        self.correction_spec()
        if not self.entry.does.plans:
            self._refuse_plan_options()
        if self.recalibrate and self.no_recalibration:
            raise PfedulError("Give one of --recalibrate and --no-recalibration, not both.")
        if self.repair_kind == DISTIL and self.repairs and self.entry.does.starts_over:
            raise PfedulError(
                f"The method '{self.entry.name}' starts over, so the clients' old models must not "
                "teach the new one; use --repair ordinary."
            )

    @property
    def entry(self) -> Method:
        """The method, without its options."""
        return METHODS.parse(self.method)[0]

    def _refuse_plan_options(self) -> None:
        usual: dict[str, Any] = {spec.name: spec.default for spec in fields(self)}
        usual["correction"] = CORRECTIONS.canonical(usual["correction"])
        for name in OF_PFEDUL:
            if getattr(self, name) != usual[name]:
                method = self.method.partition(":")[0]
                raise PfedulError(
                    f"{option_name(name)} belongs to the method 'pfedul'; the method '{method}' "
                    f"is given its own options as --method {method}:KEY=VALUE "
                    "(see 'pfedul methods')."
                )

    @property
    def records(self) -> tuple[str, ...]:
        """The records without which this removal cannot be done."""
        if self.entry.does.plans:
            return (self._correction.record,)
        return self.entry.needs.records

    @property
    def excludes(self) -> bool:
        """Whether nothing that the targets sent is left in the shared parameters."""
        if not self._reads_contributions:
            return False
        strength: float = CORRECTIONS.parse(self.correction_spec())[1].strength
        return strength == 1 and self.layers in {None, "all"}

    @property
    def cleans(self) -> bool:
        """Whether nothing that the targets sent is left in the shared tensors, statistics too."""
        estimated = self.resets_statistics and self.recalibration() is not None
        return self.entry.does.replaces or (self.excludes and estimated)

    @property
    def repairs(self) -> int:
        """The number of repair rounds."""
        if self.repair_rounds is not None:
            return self.repair_rounds
        return USUAL_ROUNDS if self._reads_contributions else 0

    def settled(self, usual: int) -> ForgetOptions:
        """With the usual number of repair rounds, if none was given; see `usual_rounds`."""
        if self.repair_rounds is not None or not self._reads_contributions:
            return self
        return replace(self, repair_rounds=usual)

    @property
    def repair_kind(self) -> str:
        """How they learn; a model that starts over must not learn from the old ones."""
        return self.repair or (ORDINARY if self.entry.does.starts_over else DISTIL)

    @property
    def _reads_contributions(self) -> bool:
        return self.entry.does.plans and self._correction.record == "contributions"

    @property
    def _correction(self) -> Correction:
        return CORRECTIONS.parse(self.correction)[0]

    def correction_spec(self) -> str:
        """The correction in its one-line form, shortcuts included."""
        entry, own = CORRECTIONS.parse(self.correction)
        given = {name: getattr(self, name) for name in SHORTCUTS if getattr(self, name) is not None}
        known = {spec.name for spec in fields(own)}
        for name in given:
            if name not in known:
                owners = [one.name for one in CORRECTIONS if hasattr(one.options, name)]
                raise PfedulError(
                    f"The correction '{entry.name}' has no {option_name(name)}; "
                    f"it takes: {', '.join(sorted(known))}. "
                    f"{option_name(name)} belongs to --correction {' and '.join(owners)}."
                )
        return write(entry.name, replace(own, **given))

    def method_options(self, seed: int) -> Any:
        """The options of the method itself: pFedUL's are fields here, so they have flags."""
        return self.plan_options(seed) if self.entry.does.plans else METHODS.parse(self.method)[1]

    def plan_options(self, seed: int) -> PlanOptions:
        """The options of the plan; `seed` is the run's, used if the request has none."""
        same = {spec.name: getattr(self, spec.name) for spec in fields(PlanOptions)}
        same["seed"] = seed if self.seed is None else self.seed
        return PlanOptions(**{**same, "correction": self.correction_spec()})

    def recalibration(self) -> Recalibration | None:
        """How remaining clients recalibrate; None if they do not."""
        wanted = self.recalibrate or self.entry.does.recalibrates or self.repairs > 0
        return self.refitting() if wanted and not self.no_recalibration else None

    @property
    def resets_statistics(self) -> bool:
        """Whether shared normalisation statistics must be estimated again."""
        corrected = self.entry.does.plans and self._correction.resets_statistics
        return self._epochs is None or self.repairs > 0 or corrected

    def refitting(self) -> Recalibration:
        """How clients recalibrate, if they do."""
        return Recalibration(self._epochs, self.affine)

    @property
    def _epochs(self) -> int | None:
        """None is thorough: see `Recalibration`."""
        return self.recalibration_epochs or (None if self._thorough else PAPERS_EPOCHS)

    @property
    def _thorough(self) -> bool:
        """Whether recalibration is thorough unless epochs are given: not for the paper's plan."""
        papers = self.entry.does.plans and self._correction.record == "fisher"
        return self.repairs > 0 or not papers

    def as_json(self) -> dict[str, Any]:
        """What is written into the ledger: the correction in full, shortcuts folded in.

        Options of the plan are left out if the method makes none.
        """
        settled = {
            "recalibration_epochs": self._epochs,
            "repair_rounds": self.repairs,
            "repair": self.repair_kind,
        }
        values = {**asdict(self), **settled}
        if not self.entry.does.plans:
            return {key: value for key, value in values.items() if key not in OF_PFEDUL}
        values = {key: value for key, value in values.items() if key not in SHORTCUTS}
        layers = self.plan_options(seed=0).which_layers
        return {**values, "correction": self.correction_spec(), "layers": layers}

    def decisive(self) -> dict[str, Any]:
        """Of `as_json`, what decides the result: a permission to go on does not."""
        return {key: value for key, value in self.as_json().items() if key != "allow_unchanged"}


def usual_rounds(share: float, shares_head: bool = False) -> int:
    """Repair rounds after the exclusion of targets with this share of the samples.

    The more is taken out, the more there is to repair. Where clients share the head too,
    recalibration does not refit it, and no old head is left that could tell the target's samples.

    >>> usual_rounds(0.05), usual_rounds(0.2), usual_rounds(1 / 3)
    (2, 3, 5)
    >>> usual_rounds(0.05, shares_head=True), usual_rounds(0.2, shares_head=True)
    (4, 6)
    """
    return max(USUAL_ROUNDS, round(ROUNDS_OF_SHARE * share)) * (2 if shares_head else 1)


def named_options(values: Mapping[str, Any]) -> ForgetOptions:
    """Options by name, as they are given in Python; an unknown name is refused."""
    refuse_unknown(ForgetOptions, values, "the options of a removal")
    return ForgetOptions(**values)


def options_of(request: Request) -> ForgetOptions:
    """The options that a request was made with."""
    return ForgetOptions(**{k: v for k, v in request.options.items() if k not in {LEVEL, ASKED}})


def changed_options(request: Request | None, options: ForgetOptions) -> tuple[str, ...]:
    """A note, if a pending request was begun with other options than these."""
    if request is None or request.status != PENDING:
        return ()
    before = request.options
    changed = [
        name for name, value in options.decisive().items() if before.get(name, value) != value
    ]
    words = ", ".join(f"{name} {before[name]}" for name in changed)
    return (f"the request was begun with {words}; that was abandoned",) if changed else ()


def _check_form(method: str) -> None:
    """Refuse the notation of `pfedul compare`, and say what to write instead."""
    plain = method.removesuffix("+recalibrate")
    if plain != method:
        raise PfedulError(
            f"'+recalibrate' is for 'pfedul compare'; give --method {plain} --recalibrate."
        )
    name, _, own = (part.strip() for part in method.partition(":"))
    if name in {one.name for one in METHODS if one.does.plans} and own:
        pairs = (item.partition("=") for item in own.split(",") if item.strip())
        words = " ".join(f"{option_name(key.strip())} {value}".strip() for key, _, value in pairs)
        raise PfedulError(
            f"'{method}' is for 'pfedul compare'; give --method {name} {words}, as the options of "
            f"'{name}' are those of the command itself."
        )
