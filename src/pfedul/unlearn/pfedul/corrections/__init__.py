"""The corrections of chosen layers: one file each, one line each in the registry."""

from pfedul.base.registry import Registry
from pfedul.unlearn.pfedul.corrections.base import Corrected as Corrected
from pfedul.unlearn.pfedul.corrections.base import Correction as Correction
from pfedul.unlearn.pfedul.corrections.base import LayerView as LayerView
from pfedul.unlearn.pfedul.corrections.exclude import EXCLUDE
from pfedul.unlearn.pfedul.corrections.paper import PAPER
from pfedul.unlearn.pfedul.corrections.reset import RESET
from pfedul.unlearn.pfedul.corrections.trust_region import TRUST_REGION

CORRECTIONS: Registry[Correction] = Registry("correction", EXCLUDE, PAPER, TRUST_REGION, RESET)
