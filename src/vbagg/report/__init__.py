"""One HTML file that can be e-mailed: an offline map viewer, facts, figures, tables, settings, how to cite.

`Report` holds plain data alone; `write_report` turns it into a page that opens from disk without any outside request.
"""

from vbagg.report.above import AboveCurve
from vbagg.report.area_table import Area, AreaTable, Cell, Column, Order
from vbagg.report.content import (
    Code,
    Districts,
    Explained,
    Figure,
    Finding,
    Foreign,
    Judgement,
    Link,
    Links,
    MadeWith,
    MapLayer,
    Orientation,
    Report,
    Section,
    Table,
)
from vbagg.report.page import write_report

__all__ = [
    "AboveCurve",
    "Area",
    "AreaTable",
    "Cell",
    "Code",
    "Column",
    "Districts",
    "Explained",
    "Figure",
    "Finding",
    "Foreign",
    "Judgement",
    "Link",
    "Links",
    "MadeWith",
    "MapLayer",
    "Order",
    "Orientation",
    "Report",
    "Section",
    "Table",
    "write_report",
]
