"""Findings as text: one line each in a file or pipe, wrapped and coloured in a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vbagg.doctor.words import between, duration, number
from vbagg.geo.exposure import WEIGHED
from vbagg.geo.files import percent
from vbagg.numerals import count, rate, ratio, side, span

if TYPE_CHECKING:
    from vbagg.doctor.findings import Finding, Findings

LEVELS = {"errors": "red", "warnings": "yellow", "advice": "cyan"}
HOW = {"average": "averaged", "sum": "summed", "interpolation": "interpolated"}


def as_text(findings: Findings) -> str:
    """All findings and facts, without markup."""
    lines = [verdict(findings)]
    for name, value in fact_lines(findings.facts):
        lines.append(f"  {name:<11} {value}")
    for level in LEVELS:
        held: Sequence[Finding] = getattr(findings, level)
        if held:
            lines += ["", level.capitalize(), *(f"  - {finding.text}" for finding in held)]
    return "\n".join(lines)


def show(findings: Findings) -> None:
    """Print findings to a terminal, wrapped to its width."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)

    def rows(pairs: Sequence[tuple[str, str]]) -> Table:
        table = Table.grid(padding=(0, 1))
        for name, value in pairs:
            table.add_row(Text(f"  {name}"), Text(value))
        return table

    console.print(Text(verdict(findings), style="bold"))
    console.print(rows(fact_lines(findings.facts)))
    for level, colour in LEVELS.items():
        held: Sequence[Finding] = getattr(findings, level)
        if held:
            console.print(Text(f"\n{level.capitalize()}", style=f"bold {colour}"))
            console.print(rows([("-", finding.text) for finding in held]))


def verdict(findings: Findings) -> str:
    """How many findings of each kind, and whether a run can begin."""
    errors, warnings = number(findings.errors, "error", "errors"), number(findings.warnings, "warning", "warnings")
    advice = number(findings.advice, "piece of advice", "pieces of advice")
    end = "Correct the errors before a run." if findings.errors else "A run can begin."
    return f"{errors}, {warnings}, {advice}. {end}"


def fact_lines(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and text of each fact."""
    lines = []
    if polygons := facts.get("polygons"):
        moved = f", reprojected to {facts['grid']['crs']}" if polygons.get("reprojected") else ""
        tables = f" with {', '.join(polygons['tables'])}" if polygons.get("tables") else ""
        files = f"{polygons['file']}{tables}"
        called = f" (in the report by {polygons['names']!r})" if "names" in polygons else ""
        text = f"{count(polygons['number'])} in {files}, named by {polygons['id']!r}{called}, {polygons['crs']}{moved}"
        lines.append(("polygons", text))
    if grid := facts.get("grid"):
        cell = _cell(grid["cell"])
        source = f", the cells of {grid['taken_from']}" if grid["taken_from"] and not grid["resolution_given"] else ""
        lines.append(
            (
                "grid",
                f"{count(grid['rows'])} x {count(grid['columns'])} cells of {cell} (about {rate(grid['cell_km'])} km), "
                f"{grid['crs']}{source}",
            )
        )
        pixels = facts["pixels"]
        each = pixels["per_polygon"]
        in_cells = f"{count(pixels['number'])} in {count(pixels['cells'])} cells"
        text = f"{in_cells}; {span(each['least'], each['most'], count)} per polygon"
        lines.append(("pixels", f"{text} (median {count(each['median'])})"))
    if catchments := facts.get("catchments"):
        text = f"{rate(catchments['facilities_per_cell'])} facilities per cell on average"
        if "attending" in catchments:
            part = percent(catchments["attending"], catchments["people"])
            text += f"; {part} of {count(catchments['people'])} {WEIGHED[catchments['kind']]} attend any"
        lines.append(("catchments", text))
    unit = "people"
    if exposure := facts.get("exposure"):
        unit = WEIGHED[exposure["kind"]]
        read_as = f" (read as {exposure['read_as']})" if "read_as" in exposure else ""
        noun = "counts" if unit == "expected" else unit
        read_as += f" (column {exposure['column']})" if "column" in exposure else ""
        lines.append((exposure["kind"], f"{count(exposure['total'])} {noun} in the polygons{read_as}"))
    for name, response in facts.get("responses", {}).items():
        text = f"{_bounds(response, 'total')} in all"
        if "left_out" in response:
            out = response["left_out"]
            others = number(out["polygons"], "polygon", "polygons")
            text += f", without {_bounds(out, 'total')} in {others} left out for want of {unit}"
        if "per_1000" in response:
            text += f"; {_bounds(response, 'per_1000')} per 1000 {response.get('per_1000_of', unit)}"
        if "per_1000_least" in response:
            low, high = response["per_1000_least"], response["per_1000_most"]
            text += f", from {span(low, high, rate)}"
        if "relative_risk" in response:
            text += f"; {_bounds(response, 'relative_risk')} times what was expected"
        if "relative_risk_least" in response:
            low, high = response["relative_risk_least"], response["relative_risk_most"]
            text += f", from {span(low, high, rate)}"
        for state in ("missing", "suppressed"):
            text += f"; {state} in {number(response[state], 'polygon', 'polygons')}" if state in response else ""
        lines.append((name, text))
    if points := facts.get("points"):
        lines.append(("points", _points(points)))
    places: dict[str, list[str]] = {}
    for raster in facts.get("rasters", ()):
        places.setdefault(_place(raster), []).append(raster["file"])
    lines += [("rasters", f"{place}: {', '.join(files)}") for place, files in places.items()]
    if cost := facts.get("fit"):
        text = f"about {duration(cost['cpu_seconds'])} of CPU time and {cost['bytes'] / 1e9:.1f} GB of memory"
        lines.append(("fit", f"{text} for each response ({number(cost['landmarks'], 'landmark', 'landmarks')})"))
    return lines


def _points(points: Mapping[str, Any]) -> str:
    """Facts about points, in words."""
    text = f"{count(points['number'])} of {points['file']} in {number(points['cells'], 'cell', 'cells')}"
    text += f", {count(points['in_polygons'])} of them in polygons"
    text += f" ({count(points['left_out'])} left out)" if points["left_out"] else ""
    text += f"; {count(points['found']['sum'])} {points['found']['name']}"
    if "size" not in points:
        return text
    size = points["size"]
    return f"{text} of {count(size['sum'])} {size['name']} ({percent(points['found']['sum'], size['sum'])})"


def _bounds(facts: Mapping[str, Any], name: str) -> str:
    """A fact that may be known within bounds only."""
    upper = facts.get(f"{name}_upper", facts[name])
    return between((facts[name], math.inf if upper is None else upper))


def _place(raster: Mapping[str, Any]) -> str:
    """How a raster comes to the grid."""
    if raster["aligned_by"] == "copy":
        return "on the grid"
    crs = "another CRS" if raster["crs"] == "'unknown'" else raster["crs"]
    moved = f"reprojected from {crs} and " if raster["reprojected"] else ""
    times = f"{ratio(raster['times_as_coarse'])} times as long as the grid's"
    return f"{moved}{HOW[raster['aligned_by']]} from cells of {_cell(raster['cell'])}, {times}"


def _cell(sides: Sequence[float]) -> str:
    """Size of a cell."""
    return " x ".join(map(side, sides))
