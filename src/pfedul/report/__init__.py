"""Reports and pictures of a run."""

from pfedul.report.content import report_content as report_content
from pfedul.report.figures import save_plan as save_plan
from pfedul.report.figures import save_score_map as save_score_map
from pfedul.report.write import FORMATS as FORMATS
from pfedul.report.write import write_report as write_report
