"""One HTML file that can be e-mailed: an offline map viewer, facts, figures, tables, settings, how to cite.

`Report` holds plain data alone; `write_report` turns it into a page that opens from disk without any outside request.
"""

from vbagg.report.content import (
    Code,
    Districts,
    Figure,
    Finding,
    MadeWith,
    MapLayer,
    Orientation,
    Report,
    Section,
    Table,
)
from vbagg.report.page import write_report

__all__ = [
    "Code",
    "Districts",
    "Figure",
    "Finding",
    "MadeWith",
    "MapLayer",
    "Orientation",
    "Report",
    "Section",
    "Table",
    "write_report",
]
