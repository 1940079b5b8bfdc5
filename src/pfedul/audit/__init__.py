"""Audit: what an outcome cost the clients who stay, and what it left of the one who went."""

from pfedul.evaluation import Preservation as Preservation
from pfedul.evaluation import bootstrap_interval as bootstrap_interval
from pfedul.evaluation import cfi as cfi
from pfedul.evaluation import pps as pps
from pfedul.evaluation import preservation as preservation
