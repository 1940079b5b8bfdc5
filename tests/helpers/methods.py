"""Every unlearning method once, with options under which it is quick: property tests run over it.

A method that is registered and not listed here fails a test.
"""

from __future__ import annotations

from typing import Any

SPECS = {
    "pfedul": "pfedul",
    "retrain": "retrain",
    "ga-naive": "ga-naive:rounds=2",
    "fine-tune": "fine-tune:rounds=2,ascent=2",
    "federaser": "federaser:interval=2",
    "pga": "pga:rounds=2,ascent=2",
    "knot": "knot",
    "fedrecovery": "fedrecovery:gamma=2,sigma=0.001",
    "zerofu": "zerofu:iterations=4,batch=16",
    "mimir": "mimir:iterations=4,batch=16",
    "fused": "fused:rounds=2,density=0.2",
    "fedosd": "fedosd:rounds=2,recovery=2",
    "not": "not:rounds=2",
    "sifu": "sifu:rounds=2",
    "none": "none",
    "exclusion": "exclusion",
    "one-more-round": "one-more-round",
    "budgeted-retrain": "budgeted-retrain:rounds=1,steps=2",
    "old-heads": "old-heads:rounds=2",
    "ct": "ct:rounds=2",
    "fedmemprune": "fedmemprune:rounds=2",
    "recalibration": "recalibration",
}
"""Name -> the method as the property tests ask for it."""

UNCHANGING = {"none", "recalibration"}
"""Controls that correct no shared tensor, which must be asked for."""


def asked(name: str, **options: Any) -> dict[str, Any]:
    """The options of `forget` that ask for a method by name."""
    return {"method": SPECS[name], "allow_unchanged": name in UNCHANGING, **options}


SETTINGS = {"knot": {"clusters": 2, "record": "none"}}
"""Methods that need a run of another kind than the others -> its settings."""

RECORD = "all"
"""What training keeps so that every method can be tried."""
