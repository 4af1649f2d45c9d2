"""A small report of known values, and ways to point at its parts in a browser."""

from pathlib import Path
from typing import Any

import numpy as np

from vbagg.report import Code, Districts, Figure, Finding, MapLayer, Report, Section, Table
from vbagg.report.content import Block

HEIGHT, WIDTH = 7, 5
BOUNDS = (43.0, -26.0, 50.5, -12.0)


def rate() -> np.ndarray:
    """Different everywhere, over three decades, with a gap."""
    values = np.exp(np.random.default_rng(4).uniform(-4, 3, (HEIGHT, WIDTH)))
    values[2, 1] = np.nan
    return values


def difference() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(HEIGHT, WIDTH)) * 1e-5


def ring(*corners: tuple[float, float]) -> list[list[float]]:
    return [list(corner) for corner in (*corners, corners[0])]


def districts() -> Districts:
    """A frame of pixels around a hole, with an island; a triangle in the north-west overlaps it."""
    frame = [
        ring((44.5, -24.0), (50.5, -24.0), (50.5, -14.0), (44.5, -14.0)),
        ring((46.0, -22.0), (49.0, -22.0), (49.0, -16.0), (46.0, -16.0)),
    ]
    island = [ring((47.0, -20.0), (48.0, -20.0), (48.0, -18.0), (47.0, -18.0))]
    triangle = [ring((43.0, -20.0), (50.0, -13.0), (43.0, -13.0))]
    geometries = [
        {"type": "MultiPolygon", "coordinates": [frame, island]},
        {"type": "Polygon", "coordinates": triangle},
    ]
    features = [{"type": "Feature", "properties": {}, "geometry": geometry} for geometry in geometries]
    facts = [
        {"District": "Frame <i>", "Cases": "1,204"},
        {"District": "Triangle", "Cases": "77", "Population": "9,000"},
    ]
    return Districts({"type": "FeatureCollection", "features": features}, facts)


def small_report(folder: Path) -> Report:
    """A report with every kind of content; its plot is written to the folder."""
    from matplotlib.figure import Figure as Plot

    Plot(figsize=(6, 4)).savefig(folder / "plot.png")
    values = rate()
    layers = [
        MapLayer(
            "mean", "Estimated rate", "cases per person", values, log=True, lower="low", upper="high", interval="90%"
        ),
        MapLayer("low", "5% quantile", "cases per person", values / 3, same_scale_as="mean"),
        MapLayer("high", "95% quantile", "cases per person", values * 4, same_scale_as="mean"),
        MapLayer("difference", "Difference", "", difference(), "vik", limits=(-2e-5, 2e-5), description="A sentence."),
        MapLayer("constant", "Constant rate", "cases per person", np.full((HEIGHT, WIDTH), 1234.5678), digits=4),
        MapLayer("empty", "Nothing", "", np.full((HEIGHT, WIDTH), np.nan)),
    ]
    wide = Table([f"column {i}" for i in range(12)], [[1.5] * 12])
    blocks: list[Block] = [
        "Words. " * 40,
        wide,
        Figure(folder / "plot.png", "A plot", "empty plot"),
        Code("[model]\nlink = 'exp'"),
    ]
    return Report(
        title="A title that is rather long, so that it must be broken on a phone",
        subtitle="Sub",
        summary=[("Districts", "2"), ("Cases", "1,281")],
        layers=layers,
        bounds=BOUNDS,
        districts=districts(),
        sections=[Section("Scores", "scores", blocks), Section("Check", "check", [Finding("warning", "Look.")])],
        citation="Cite.",
        compare="constant",
    )


def shown(page: Any) -> Any:
    page.wait_for_selector("html[data-viewer=ready]")
    page.evaluate("document.getElementById('map').scrollIntoView()")
    return page


def printed(value: float) -> str:
    """Three significant digits, as Python writes them."""
    return f"{value:#.3g}".rstrip(".")


def place(page: Any, row: float, column: float, pane: int = 0, shape: tuple[int, int] = (HEIGHT, WIDTH)) -> tuple:
    """Screen position of a position counted in pixels, from the edges of the picture."""
    box = page.locator("canvas.pixels").nth(pane).bounding_box()
    return box["x"] + column / shape[1] * box["width"], box["y"] + row / shape[0] * box["height"]


def hover(page: Any, row: float, column: float, **options: Any) -> None:
    page.mouse.move(*place(page, row, column, **options))


def expect_text(page: Any, selector: str, text: str) -> None:
    from playwright.sync_api import expect

    expect(page.locator(selector).first).to_have_text(text)


def radio(page: Any, label: str) -> Any:
    return page.get_by_role("radio", name=label, exact=True)


def choose(page: Any, label: str, name: str) -> None:
    radio(page, label).check()
    page.wait_for_selector(f".pane[data-layer={name}]")
