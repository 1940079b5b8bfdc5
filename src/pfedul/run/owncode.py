"""Data and model of the user's own that settings name: whether to import them, and what they give.

A run folder is data and may be somebody else's, so what its configuration names is imported only
if the user wants it: the settings were signed with the user's own key, which is done when a run is
made, or the call names the same functions again. Nothing is ever imported from inside the run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from pfedul.base.code import OwnFunction, own_function
from pfedul.base.keys import own_public_key
from pfedul.base.options import option_name
from pfedul.base.registry import Registry
from pfedul.data.datasets import DATASETS
from pfedul.errors import PfedulError
from pfedul.models import MODELS
from pfedul.run.assembly import ModelFactory, OwnData
from pfedul.settings import OWN, Settings
from pfedul.store.attested import signer_of_settings
from pfedul.store.ledger import Ledger
from pfedul.store.paths import LEDGER_FILE

CODE: Mapping[str, Registry[Any]] = {"data": DATASETS, "model": MODELS}
"""Settings that may name a function of the user's own -> the choices that have no need of one."""

_DEALING = ("clients", "samples", "test_samples")


def named_again(stored: Settings, given: Mapping[str, Any]) -> dict[str, str]:
    """Names in a call that must be those of the run; a run of objects from Python has none."""
    return {
        key: value
        for key, value in given.items()
        if isinstance(value, str) and getattr(stored, key) != OWN
    }


def code_to_confirm(ledger: Ledger, settings: Settings, given: Mapping[str, Any]) -> list[str]:
    """Settings that name code, as options, if neither the user's key nor the call confirms them."""
    unnamed = [key for key in CODE if given.get(key) is None]
    options = code_in({key: getattr(settings, key) for key in unnamed})
    own = own_public_key() if options else None
    return [] if own is not None and own == signer_of_settings(ledger) else options


def code_in(values: Mapping[str, Any]) -> list[str]:
    """The options among these values that name code."""
    named = {key: CODE[key].own_code(str(value)) for key, value in values.items() if key in CODE}
    return [f"{option_name(key)} {quote(str(name))}" for key, name in named.items() if name]


def newly_confirmed(ledger: Ledger, settings: Settings, names: Mapping[str, str]) -> bool:
    """Whether it took the names in the call to confirm the code of a run, and they did."""
    return bool(code_to_confirm(ledger, settings, {})) and not code_to_confirm(
        ledger, settings, names
    )


def refuse_unconfirmed(
    place: Path, options: list[str], why: str = "was not signed with your key"
) -> None:
    if options:
        raise PfedulError(
            f"{place} names code and {why}; if you want that code to be "
            f"imported, say so with {' '.join(options)}."
        )


def refuse_code_of_run(config: Path, values: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """A configuration from a run folder: the code in it has to be named in the call as well."""
    if runs_around(config):
        unnamed = {key: value for key, value in values.items() if given.get(key) is None}
        refuse_unconfirmed(config, code_in(unnamed), "lies in a run folder")


def runs_around(file: Path) -> list[Path]:
    """The run folders that a file lies in, as it is named and where a link leads."""
    places = Path(os.path.abspath(file)), file.resolve()
    above = dict.fromkeys(folder for place in places for folder in (place, *place.parents))
    return [folder for folder in above if (folder / LEDGER_FILE).is_file()]


def own_parts(
    settings: Settings, given: Mapping[str, Any], run: Path
) -> tuple[OwnData | None, ModelFactory | None]:
    """Own data and model: as given, or from the functions that call or settings name."""
    data, model = (_own_part(key, settings, given[key], run) for key in ("data", "model"))
    if not isinstance(data, OwnFunction):
        return data, model
    _refuse_dealing(settings)
    made = data()
    if not isinstance(made, Mapping):
        kind = type(made).__name__
        raise PfedulError(f"The {data.owner} must return {{client: (train, test)}}, not {kind}.")
    return made, model


def _own_part(key: str, settings: Settings, given: Any, run: Path) -> Any:
    if given is not None and not isinstance(given, str):
        return given
    setting = getattr(settings, key)
    name = CODE[key].own_code(given if setting == OWN and given else setting)
    return (
        None
        if name is None
        else own_function(CODE[key].kind, name, lambda file: _foreign(run, file))
    )


def _foreign(run: Path, file: Path) -> list[Path]:
    """Folders whose files are data: this run, which may not be made yet, and all other runs."""
    own = [run] if file.resolve().is_relative_to(run.resolve()) else []
    return [*own, *runs_around(file)]


def _refuse_dealing(settings: Settings) -> None:
    for name in _DEALING:
        if getattr(settings, name) is not None:
            raise PfedulError(
                f"{option_name(name)} is for data that pfedul deals to clients; leave it out, and "
                "let your function return the clients that you want."
            )
