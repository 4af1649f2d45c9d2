"""Tables of scores as Markdown, with the paper's numbers beside ours."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vbagg.errors import unknown_name

if TYPE_CHECKING:
    import pandas as pd

Format = str | Callable[[Any], str]

SPREADS = {"std": "standard deviation", "se": "standard error"}


def write_text(path: Path | str, text: str) -> Path:
    """Write under a temporary name and move into place, so that the file is never half written."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return path


def markdown_table(frame: pd.DataFrame, formats: Mapping[str, Format] | None = None, caption: str | None = None) -> str:
    """A Markdown table of all columns; the index is left out.

    Parameters
    ----------
    frame
        The cells. Missing ones become "-".
    formats
        Format specification (".3f") or function by column; other floats have four significant digits.
    caption
        A line above the table; by default the one that :func:`summary` attached to its result.
    """
    formats = formats or {}
    columns = [[_cell(value, formats.get(str(name), ".4g")) for value in frame[name]] for name in frame]
    header = [_escape(str(name)) for name in frame]
    widths = [max(map(len, [name, *cells, "---"])) for name, cells in zip(header, columns, strict=True)]
    right = [all(_numeric(cell) for cell in cells) for cells in columns]
    lines = [_line(header, widths, right)]
    lines.append(
        "|" + "|".join("-" * (width + 1) + (":" if r else "-") for width, r in zip(widths, right, strict=True))
    )
    lines[-1] += "|"
    lines += [_line(cells, widths, right) for cells in zip(*columns, strict=True)]
    caption = frame.attrs.get("caption") if caption is None else caption
    return (f"{caption}\n\n" if caption else "") + "\n".join(lines) + "\n"


def summary(
    table: pd.DataFrame,
    by: Sequence[str],
    values: Sequence[str],
    spread: str = "std",
    formats: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Mean and spread over repetitions as text, such as "2.144 (0.006)".

    Parameters
    ----------
    table
        Rows of repetitions; missing values are left out of the mean.
    by
        Columns that tell apart the rows of the result, which come in the order of their first appearance.
    values
        Columns to average.
    spread
        ``"std"``, standard deviation of a repetition, or ``"se"``, standard error of the mean; the caption says which.
    formats
        Format specification by value. By default a column has the decimals that show its largest spread to two digits.

    Returns
    -------
    pandas.DataFrame
        ``by``, ``values``, and ``repetitions``: the number of rows behind each cell. ``attrs["caption"]`` names the
        spread.
    """
    if spread not in SPREADS:
        raise unknown_name("spread", spread, SPREADS)
    groups = table.groupby(list(by), sort=False, dropna=False)
    result = table[list(by)].drop_duplicates(ignore_index=True)
    for value in values:
        mean = groups[value].mean().tolist()
        sd = (groups[value].std() if spread == "std" else groups[value].sem()).tolist()
        form = (formats or {}).get(value) or f".{_decimals(mean, sd)}f"
        result[value] = [_mean_and_spread(*pair, form) for pair in zip(mean, sd, strict=True)]
    result["repetitions"] = groups.size().tolist()
    result.attrs["caption"] = f"Mean ({SPREADS[spread]}) over repetitions."
    return result


def with_paper(
    frame: pd.DataFrame,
    paper: Mapping[Any, Mapping[str, Any]],
    by: str | Sequence[str] = "method",
    heading: str = "{} (paper)",
) -> pd.DataFrame:
    """Put the paper's numbers beside ours, each in a column after the one it belongs to.

    Parameters
    ----------
    frame
        Our table, as from :func:`summary`.
    paper
        The paper's numbers by column name, by the row's entry in ``by`` (a tuple if these are several columns).
    by
        Column or columns that name a row.
    heading
        Name of the new columns, from the name of ours.
    """
    keys = frame[by].tolist() if isinstance(by, str) else list(frame[list(by)].itertuples(index=False, name=None))
    quoted = dict.fromkeys(column for numbers in paper.values() for column in numbers)
    unknown = [column for column in quoted if column not in frame]
    if unknown:
        raise ValueError(f"`paper` names column {unknown[0]!r}, which the table does not have.")
    result = frame.copy()
    for column in quoted:
        cells = [paper.get(key, {}).get(column) for key in keys]
        at = result.columns.get_loc(column) + 1
        result.insert(at, heading.format(column), cells)
    result.attrs = dict(frame.attrs)
    return result


def _decimals(means: Sequence[float], spreads: Sequence[float]) -> int:
    finite = [s for s in spreads if math.isfinite(s) and s > 0]
    if finite:
        return max(0, min(9, 1 - math.floor(math.log10(max(finite)))))
    sizes = [abs(m) for m in means if math.isfinite(m) and m]
    return max(0, min(9, 3 - math.floor(math.log10(max(sizes))))) if sizes else 3


def _mean_and_spread(mean: float, spread: float, form: str) -> str:
    if math.isnan(mean):
        return "-"
    return f"{mean:{form}}" if math.isnan(spread) else f"{mean:{form}} ({spread:{form}})"


def _cell(value: Any, form: Format) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if callable(form):
        return _escape(form(value))
    return f"{value:{form}}" if isinstance(value, float) else _escape(str(value))


def _numeric(cell: str) -> bool:
    """Whether a cell reads as a number, with or without a spread in brackets."""
    if cell == "-":
        return True
    try:
        float(cell.split(" (")[0])
    except ValueError:
        return False
    return True


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if r else cell.ljust(width) for cell, width, r in zip(cells, widths, right, strict=True)
    ]
    return "| " + " | ".join(padded) + " |"
