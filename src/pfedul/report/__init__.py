"""Pictures of a run."""

from pfedul.report.figures import save_plan as save_plan
from pfedul.report.figures import save_score_map as save_score_map
