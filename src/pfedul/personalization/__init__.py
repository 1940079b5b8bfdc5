"""The personalisations: one file each, one line each in the registry."""

from pfedul.base.registry import Registry
from pfedul.personalization.base import Job as Job
from pfedul.personalization.base import LocalTraining as LocalTraining
from pfedul.personalization.base import Personalization as Personalization
from pfedul.personalization.base import Recalibration as Recalibration

PERSONALIZATIONS: Registry[Personalization] = Registry(
    "personalization",
    {
        "fedavg": "pfedul.personalization.fedavg:FEDAVG",
        "fedper": "pfedul.personalization.fedper:FEDPER",
        "fedrep": "pfedul.personalization.fedrep:FEDREP",
        "ditto": "pfedul.personalization.ditto:DITTO",
        "fedbn": "pfedul.personalization.fedbn:FEDBN",
        "lora": "pfedul.personalization.lora:LORA",
    },
    group="pfedul.personalizations",
)
