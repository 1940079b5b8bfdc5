"""The corrections of chosen layers: one file each, one line each in the registry."""

from pfedul.registry import Registry
from pfedul.unlearn.corrections.kind import Corrected as Corrected
from pfedul.unlearn.corrections.kind import Correction as Correction
from pfedul.unlearn.corrections.kind import LayerView as LayerView
from pfedul.unlearn.corrections.paper import PAPER
from pfedul.unlearn.corrections.reset import RESET
from pfedul.unlearn.corrections.trust_region import TRUST_REGION

CORRECTIONS: Registry[Correction] = Registry("correction", PAPER, TRUST_REGION, RESET)
