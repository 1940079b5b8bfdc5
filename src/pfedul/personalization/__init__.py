"""The personalisations: one file each, one line each in the registry."""

from pfedul.personalization.ditto import DITTO
from pfedul.personalization.fedavg import FEDAVG
from pfedul.personalization.fedbn import FEDBN
from pfedul.personalization.fedper import FEDPER
from pfedul.personalization.fedrep import FEDREP
from pfedul.personalization.job import Fitted as Fitted
from pfedul.personalization.job import Job as Job
from pfedul.personalization.job import LocalTraining as LocalTraining
from pfedul.personalization.job import Personalization as Personalization
from pfedul.personalization.job import Recalibration as Recalibration
from pfedul.registry import Registry

PERSONALIZATIONS = Registry("personalization", FEDAVG, FEDPER, FEDREP, DITTO, FEDBN)
