"""The personalisations: one file each, one line each in the registry."""

from pfedul.base.registry import Registry
from pfedul.personalization.base import Job as Job
from pfedul.personalization.base import LocalTraining as LocalTraining
from pfedul.personalization.base import Personalization as Personalization
from pfedul.personalization.base import Recalibration as Recalibration
from pfedul.personalization.ditto import DITTO
from pfedul.personalization.fedavg import FEDAVG
from pfedul.personalization.fedbn import FEDBN
from pfedul.personalization.fedper import FEDPER
from pfedul.personalization.fedrep import FEDREP
from pfedul.personalization.lora import LORA

PERSONALIZATIONS = Registry(
    "personalization", FEDAVG, FEDPER, FEDREP, DITTO, FEDBN, LORA, group="pfedul.personalizations"
)
