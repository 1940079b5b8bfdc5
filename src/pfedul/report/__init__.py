"""Reports and pictures of a run."""

from pfedul.report.formats import FORMATS as FORMATS
from pfedul.report.formats import write_material as write_material
from pfedul.report.formats import write_report as write_report
from pfedul.report.page import report_content as report_content
from pfedul.report.plots.layers import save_plan as save_plan
from pfedul.report.plots.layers import save_score_map as save_score_map
