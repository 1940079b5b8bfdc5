"""Audit: what an outcome cost the clients who stay, and what it left of the one who went."""

from pfedul.audit.metrics import METRICS as METRICS
from pfedul.audit.metrics import Metric as Metric
from pfedul.audit.metrics import Preservation as Preservation
from pfedul.audit.metrics import bootstrap_interval as bootstrap_interval
from pfedul.audit.metrics import cfi as cfi
from pfedul.audit.metrics import pps as pps
from pfedul.audit.metrics import preservation as preservation
