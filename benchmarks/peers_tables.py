"""Rows of `peers.py` as text: a line each, a table, and the tables of `peers.md`."""

from __future__ import annotations

from typing import Any

import numpy as np
from peers_scores import paired

OURS = "vbagg"
WAYS = ("raw", "rescaled")
Row = dict[str, Any]


def group_of(data: str) -> str:
    """Name of a data set without its seed."""
    kind, *rest = data.split("-")
    return "-".join([kind, *rest[:-1]]) if kind == "madagascar" else data


def number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}" if abs(value) < 1 else f"{value:.{digits}g}"


def line(row: Row) -> str:
    """One row, both ways."""
    start = f"{row['data']:24s} {row['method']:19s}"
    if "failed" in row:
        return f"{start} failed: {row['failed']}"
    scores = "   ".join(
        f"{way} R2 {row[way]['r2']:6.3f} MAE {number(row[way]['mae'])} CRPS {number(row[way]['crps'])}"
        f" 90%: {number(row[way]['coverage_90'], 2)}"
        for way in WAYS
    )
    return f"{start} {scores}   CPU s {row['cpu']:.1f} + {row['tuning_cpu']:.1f}, {row['peak_gb']:.2f} GB"


def table(rows: list[Row]) -> str:
    return "\n".join(line(row) for row in sorted(rows, key=lambda row: row["data"]))


def errors(members: list[Row], way: str, kind: str) -> np.ndarray:
    """Sums of errors of all bags of the data sets of a group, one after another."""
    return np.concatenate([np.array(row[way]["errors"][kind].split(), dtype=float) for row in members])


def differences(peers: list[Row], ours: list[Row], way: str) -> dict[str, tuple[float, float, float]]:
    """How far squared errors (as R2, a share of the variance) and absolute errors (in % of ours) exceed ours."""
    size = sum(row["individuals"] for row in ours)
    own = errors(ours, "raw", "absolute")
    absolute = paired(errors(peers, way, "absolute"), own, size)
    squared = paired(errors(peers, way, "squared"), errors(ours, "raw", "squared"), len(ours))
    level = own.sum() / size
    return {"r2": squared, "mae": tuple(100 * value / level for value in absolute)}  # type: ignore[dict-item]


def by_group(rows: list[Row]) -> dict[str, dict[str, list[Row]]]:
    """Finished rows by group and method, members in order."""
    found: dict[str, dict[str, list[Row]]] = {}
    for row in sorted(rows, key=lambda row: row["data"]):
        if "failed" not in row:
            found.setdefault(group_of(row["data"]), {}).setdefault(row["method"], []).append(row)
    return found


def mean(members: list[Row], *path: str) -> float | None:
    values: list[Any] = []
    for row in members:
        value: Any = row
        for key in path:
            value = value[key]
        values.append(value)
    return None if None in values else float(np.mean(values))


def interval(values: tuple[float, float, float], digits: int) -> str:
    return f"{values[0]:+.{digits}f} ({values[1]:+.{digits}f} to {values[2]:+.{digits}f})"


def markdown(rows: list[Row]) -> str:
    """A table for each group of data sets."""
    parts = []
    for name, methods in by_group(rows).items():
        counts = {len(members) for members in methods.values()}
        sets = (
            ""
            if counts == {1}
            else f", mean of {max(counts)} data sets" + (" (fewer: in brackets)" * (len(counts) > 1))
        )
        first = next(iter(methods.values()))[0]
        parts.append(f"### {name}: {first['bags']} bags, {first['individuals']:,} individuals{sets}\n")
        parts.append(
            "| method | R2 | MAE | log RMSE | CRPS | 90% holds | CPU s (tuning) | GB"
            " | R2 below vbagg's | MAE above vbagg's, % |"
        )
        parts.append("|---|---|---|---|---|---|---|---|---|---|")
        for method, members in sorted(methods.items(), key=lambda item: item[0] != OURS):
            parts += [markdown_line(method, way, members, methods.get(OURS, []), max(counts)) for way in WAYS]
        parts.append("")
    return "\n".join(parts)


def markdown_line(method: str, way: str, members: list[Row], ours: list[Row], full: int) -> str:
    few = f" ({len(members)})" if len(members) < full else ""
    cells = [f"{method}{few}" if way == "raw" else f"{method}{few}, rescaled"]
    cells += [number(mean(members, way, score)) for score in ("r2", "mae", "log_rmse", "crps")]
    share = mean(members, way, "coverage_90")
    cells.append("-" if share is None else f"{share:.0%}")
    cost = f"{mean(members, 'cpu'):.1f} ({mean(members, 'tuning_cpu'):.0f})"
    cells += [cost, f"{mean(members, 'peak_gb'):.2f}"] if way == "raw" else ["", ""]
    matched = [row for row in ours if row["data"] in {member["data"] for member in members}]
    if not matched or len(matched) < len(members) or (method == OURS and way == "raw"):
        return "| " + " | ".join([*cells, "", ""]) + " |"
    gap = differences(members, matched, way)
    return "| " + " | ".join([*cells, interval(gap["r2"], 3), interval(gap["mae"], 1)]) + " |"
