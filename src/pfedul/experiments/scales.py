"""Scales: the settings of each data set, as TOML files that `pfedul train --config` takes, too."""

from __future__ import annotations

from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from typing import Any

from pfedul.errors import PfedulError
from pfedul.settings import read_toml

SCALES = {
    "toy": "embedded digits in the place of every data set, for a look at the tables",
    "cpu": "real data, a narrow ResNet-18 with 17 layers, 72 epochs: hours on two cores",
    "paper": "exactly Section 4.1 of the paper: ResNet-18, 1,000 epochs; wants a GPU",
}


def preset_names() -> list[str]:
    """All presets: a scale and a data set."""
    names = (file.name for file in _folder().iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def preset(name: str) -> dict[str, Any]:
    """The settings of a preset such as `cpu-cifar10`."""
    if name not in preset_names():
        raise PfedulError(f"There is no preset '{name}'; there are: {', '.join(preset_names())}.")
    with as_file(_folder() / f"{name}.toml") as file:
        return read_toml(file)


def scale_settings(scale: str, data: str) -> dict[str, Any]:
    """The settings of a data set at a scale, personalisation and seed left open."""
    return preset(f"{scale}-{data}")


def _folder() -> Traversable:
    return files("pfedul.experiments") / "presets"
