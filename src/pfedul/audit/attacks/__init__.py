"""The attacks of the audit, weak to strong: one file each, one line each in the list.

Backdoor and distance have inputs of their own (`checks.py`), and so has relearn time
(`evidence/relearning.py`).
Another package adds an attack by an entry point or `ATTACKS.register`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfedul.base.registry import Registry

if TYPE_CHECKING:
    from pfedul.audit.attacks.base import Attack

ATTACKS: Registry[Attack] = Registry(
    "attack",
    {
        "threshold": "pfedul.audit.attacks.threshold:THRESHOLD",
        "logistic": "pfedul.audit.attacks.logistic:LOGISTIC",
        "rmia": "pfedul.audit.attacks.rmia:RMIA",
        "klom": "pfedul.audit.attacks.klom:KLOM_ATTACK",
        "forgetting-quality": "pfedul.audit.attacks.forgetting_quality:FORGETTING_QUALITY",
        "ulira": "pfedul.audit.attacks.ulira:ULIRA",
    },
    group="pfedul.attacks",
)
