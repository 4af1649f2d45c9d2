"""A report with tables of areas, whose names and numbers are awkward."""

from itertools import pairwise
from typing import Any

import numpy as np
from small_report import BOUNDS, HEIGHT, WIDTH, ring

from vbagg.report import (
    Area,
    AreaTable,
    Cell,
    Code,
    Column,
    Districts,
    Judgement,
    Link,
    Links,
    MapLayer,
    Order,
    Report,
    Section,
    Table,
)

HOSTILE = [
    "</script><script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    "=cmd|'/c calc'!A1",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    'A "quoted", name; with\tmarks',
    "مقاطعة الشمال",
    "\u202eright to left",
    "a very long name " * 18,
    "{{ 7 * 7 }} {n} {total}",
    "' OR 1=1 --",
]
PLAIN = ["Ambato", "Émile", "Île-Rousse", "Zürich", "ambalavao", "São Tomé", "District 10", "District 9"]
NAMES = [*PLAIN, *HOSTILE, *(f"Place {at}" for at in range(17))]
COLUMNS = [
    Column("Name", numeric=False, falling=False),
    Column("Official cases", about="As reported."),
    Column("Cases per 1,000 people", about="With its interval."),
    Column("Certainty", numeric=False, falling=False),
]
ORDERS = [Order("Burden", 1), Order("Rate", 2), Order("Certainty", 3, falling=False)]
HEADERS = ["name", "id", "official", "rate"]


def numbers(n: int = len(NAMES)) -> tuple[np.ndarray, np.ndarray]:
    """Totals, some of which are missing, and rates, some of which are the same."""
    random = np.random.default_rng(11)
    totals, rates = np.round(random.lognormal(5, 2, n)), np.round(random.lognormal(1, 1, n), 1)
    totals[[3, 7]] = np.nan
    rates[:3] = 2.5
    return totals, rates


def area(at: int, name: str, total: float, rate: float, **place: Any) -> Area:
    known = np.isfinite(total)
    cells = [
        Cell(f"{total:,.0f}" if known else "missing", float(total) if known else None),
        Cell(f"{rate:,.3g}", float(rate), f"{rate / 2:,.3g} to {rate * 2:,.3g}"),
        Cell("fair", 1 / (1 + at), f"give or take {at}%"),
    ]
    return Area(name, cells, [name, f"{at:03}", float(total) if known else None, float(rate)], **place)


def area_table(n: int = len(NAMES)) -> AreaTable:
    """The districts of the small report's ground, in a row from west to east."""
    totals, rates = numbers(n)
    names = NAMES if n == len(NAMES) else [f"District {at}" for at in range(n)]
    areas = [area(at, *row, district=at) for at, row in enumerate(zip(names, totals, rates, strict=True))]
    whole = Area("All", [Cell(f"{np.nansum(totals):,.0f}"), Cell(""), Cell("")])
    file = {"file": "cases_districts.csv", "headers": HEADERS}
    return AreaTable("Districts", "districts", COLUMNS, areas, ORDERS, whole, note="Why.", **file)


def other_areas() -> AreaTable:
    """Two areas of which one has no place."""
    areas = [area(0, "North", 12.0, 3.0, bounds=(44.0, -15.0, 47.0, -13.0)), area(1, "Nowhere", 7.0, 9.0)]
    return AreaTable("Areas of regions.gpkg", "areas-1", COLUMNS, areas, ORDERS, file="areas.csv", headers=HEADERS)


def columns_of(n: int) -> list[list[list[float]]]:
    """Outlines of the districts: stripes of the ground."""
    west, south, east, north = BOUNDS
    edges = np.linspace(west, east, n + 1)
    return [[ring((a, south), (b, south), (b, north), (a, north))] for a, b in pairwise(edges)]


def area_report(word: Any = "with care", n: int = len(NAMES), shape: tuple[int, int] = (HEIGHT, WIDTH)) -> Report:
    """All that the first screen has, a map, and an appendix."""
    table = area_table(n)
    values = np.random.default_rng(3).lognormal(0, 1, shape)
    features = [{"geometry": {"type": "Polygon", "coordinates": rings}} for rings in columns_of(n)]
    facts = [{"District": one.name, "Official": one.cells[0].text} for one in table.areas]
    reasons = ("One reason.", HOSTILE[0], "Another reason, which is longer.")
    return Report(
        title="Malaria",
        subtitle="Period: 2013",
        paragraph="1,240,000 cases were counted among 21,400,000 people. Rates are highest in Ambato.",
        judgement=Judgement(word, "Can the fine map be relied on?", word.capitalize(), reasons),
        summary=[("Cases", "1,281")],
        tables=[table, other_areas()],
        layers=[MapLayer("rate", "Rate", "cases", values), MapLayer("observed", "Observed", "cases", values / 3)],
        bounds=BOUNDS,
        map_note="Read it with care.",
        districts=Districts({"features": features}, facts),
        sections=[Section("Files", "files", ["Beside.", Links([Link("../maps/a #1%.tif", HOSTILE[1])])])],
        appendix=[Section("Model", "model", [Table(["part", "value"], [["a", 1.5]]), Code("link = 'exp'")])],
        citation="Cite.",
    )
