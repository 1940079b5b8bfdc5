"""The attacks of the audit, weak to strong: one file each, one line each in the list.

Backdoor and distance have inputs of their own (`checks.py`), and so has relearn time
(`evidence/relearning.py`).
Another package adds an attack by an entry point or `ATTACKS.register`.
"""

from pfedul.audit.attacks.base import Attack as Attack
from pfedul.audit.attacks.forgetting_quality import FORGETTING_QUALITY
from pfedul.audit.attacks.klom import KLOM_ATTACK
from pfedul.audit.attacks.logistic import LOGISTIC
from pfedul.audit.attacks.rmia import RMIA
from pfedul.audit.attacks.threshold import THRESHOLD
from pfedul.audit.attacks.ulira import ULIRA
from pfedul.base.registry import Registry

ATTACKS: Registry[Attack] = Registry(
    "attack",
    THRESHOLD,
    LOGISTIC,
    RMIA,
    KLOM_ATTACK,
    FORGETTING_QUALITY,
    ULIRA,
    group="pfedul.attacks",
)
