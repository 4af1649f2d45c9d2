"""Tables of areas as the page holds them: the first rows in its text, and all of them as data for its scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vbagg.report.area_table import Area, AreaTable, Order
from vbagg.report.encoding import pack_bytes
from vbagg.report.scripts import DataBlock

PRINTED, NEARLY, FEW = 20, 25, 10
"""Rows on paper and where scripts do not run, all if there are hardly more; and those on a screen before the reader
asks for more.
"""
EDGES = ("west", "south", "east", "north")
DIGITS = 10
"""Significant ones of numbers in the downloaded file."""


@dataclass(frozen=True)
class ShownAreas:
    """A table as the template shows it."""

    table: AreaTable
    data: str
    first: Sequence[Area]


def shown_tables(tables: Sequence[AreaTable]) -> list[ShownAreas]:
    """All of them, with the identifiers of their data."""
    return [ShownAreas(table, f"vbagg-areas-{at}", first_areas(table)) for at, table in enumerate(tables)]


def first_areas(table: AreaTable) -> list[Area]:
    """Rows that are on paper."""
    return in_order(table.areas, table.orders[0])[: printed_of(table)]


def printed_of(table: AreaTable) -> int:
    """How many these are."""
    return len(table.areas) if len(table.areas) <= NEARLY else PRINTED


def in_order(areas: Sequence[Area], order: Order) -> list[Area]:
    """Areas sorted by a column of numbers, those without a number last."""
    known = [area for area in areas if _value(area, order) is not None]
    rest = [area for area in areas if _value(area, order) is None]
    return sorted(known, key=lambda area: _value(area, order), reverse=order.falling) + rest  # type: ignore[arg-type, return-value]


def _value(area: Area, order: Order) -> float | str | None:
    return area.name if order.column == 0 else area.cells[order.column - 1].value


def area_blocks(tables: Sequence[ShownAreas]) -> Iterator[DataBlock]:
    """Data of each table."""
    for shown in tables:
        text = json.dumps(_document(shown.table), separators=(",", ":"), allow_nan=False)
        yield DataBlock(shown.data, pack_bytes(text.encode("utf-8")), "application/octet-stream")


def _document(table: AreaTable) -> dict[str, Any]:
    areas = [
        {
            "name": area.name,
            "cells": [[cell.text, cell.value, cell.range] for cell in area.cells],
            "record": [_short(value) for value in area.record],
            "district": area.district,
            "bounds": None if area.bounds is None else dict(zip(EDGES, area.bounds, strict=True)),
        }
        for area in table.areas
    ]
    return {
        "columns": [asdict(column) for column in table.columns],
        "orders": [asdict(order) for order in table.orders],
        "areas": areas,
        "headers": list(table.headers),
        "file": table.file,
        "printed": printed_of(table),
        "few": FEW,
    }


def _short(value: str | float | None) -> str | float | None:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
