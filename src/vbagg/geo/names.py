"""What polygons are called: a column of names, guessed where none is given, each name told apart from all others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vbagg.errors import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from vbagg.geo.polygons import Polygons

NAME = {"name", "nom", "nome", "nombre", "nm", "naam", "libelle", "label", "title"}
PLACE = {
    *("district", "county", "municipality", "commune", "comuna", "municipio", "concelho", "distrito", "departement"),
    *("departamento", "province", "provincia", "region", "ward", "village", "parish", "zone", "woreda", "lga", "city"),
    *("facility", "clinic", "hospital", "catchment", "etablissement", "establecimiento"),
}
CODE = {"id", "code", "pcode", "no", "nr", "num", "number", "key"}
WRITTEN_TOGETHER = re.compile(r"(name|nom|nome|nombre)$")
LEVEL = re.compile(r"\b(?:adm|admin) \d+ (?:en|fr|pt|es|name)\b")
DISTINCT, FILLED = 0.8, 0.9
"""Parts of the rows of a column that must differ, and have a name with a letter in it."""


@dataclass(frozen=True)
class Names:
    """What polygons are called.

    Attributes
    ----------
    column
        Where names come from.
    texts
        One for each polygon, all different: those that stand more than once are followed by the id.
    repeated
        How many polygons share their name with others.
    """

    column: str
    texts: tuple[str, ...]
    repeated: int


def names_in(frame: pd.DataFrame) -> Names:
    """The same of a table without ids: rows without a column of names are numbered from 1."""
    column = names_among(frame)
    numbers = [str(at) for at in range(1, len(frame) + 1)]
    return _told_apart(column or "", numbers, frame[column] if column is not None else [""] * len(frame))


def names_of(polygons: Polygons, column: str | None = None) -> Names:
    """Names of polygons, by a column or else by the one that looks most like names; ids where none does.

    Raises
    ------
    ValueError
        If there is no such column.
    """
    chosen = names_column(polygons, column)
    ids = [_text(label) for label in polygons.labels]
    return _told_apart(chosen, ids, ids if chosen == polygons.id else polygons.frame[chosen])


def _told_apart(column: str, ids: Sequence[str], names: Iterable[Any]) -> Names:
    found = [_text(value) for value in names]
    times = Counter(found)
    texts = [
        id if not name else f"{name} ({id})" if times[name] > 1 else name for name, id in zip(found, ids, strict=True)
    ]
    if len(set(texts)) < len(texts):  # a name may be that of another with its id
        texts = [f"{name} ({id})" for name, id in zip(found, ids, strict=True)]
    return Names(column, tuple(texts), sum(times[name] > 1 for name in found if name))


def names_column(polygons: Polygons, column: str | None = None) -> str:
    """The column that names are taken from."""
    frame = polygons.frame
    known = [str(name) for name in frame.columns if name != "geometry"]
    if column is not None:
        if column not in known:
            raise ValueError(f"{polygons.path} has no column {column!r} for the names{did_you_mean(column, known)}")
        return column
    if _rank(polygons.id) is not None and _are_names(frame[polygons.id]):
        return polygons.id
    return names_among(frame) or polygons.id


def names_among(frame: pd.DataFrame) -> str | None:
    """The column of a table that looks most like names, None if none does."""
    ranks = {str(name): rank for name in frame.columns if (rank := _rank(str(name))) is not None}
    usable = [name for name in ranks if name != "geometry" and _are_names(frame[name])]
    return min(usable, key=ranks.__getitem__, default=None)


def _rank(column: str) -> tuple[int, int, int] | None:
    """How much a column looks like names by its own: the least first, None if not at all."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])|[\W_]+", " ", column).lower().strip()
    words = spaced.split()
    if CODE & set(words):
        return None
    finest = -max((int(word) for word in words if word.isdigit()), default=0)
    if spaced in NAME:
        return 0, 0, 0
    if NAME & set(words) or WRITTEN_TOGETHER.search(spaced) or LEVEL.search(spaced):
        return 1, finest, len(words)
    return (2, finest, len(words)) if PLACE & set(words) else None


def _are_names(values: pd.Series) -> bool:
    """Whether a column holds text that mostly differs."""
    if not all(isinstance(value, str) or value is None or value != value for value in values):
        return False
    texts = [_text(value) for value in values]
    filled = [text for text in texts if any(map(str.isalpha, text))]
    return len(filled) >= FILLED * len(texts) and len(set(filled)) >= DISTINCT * len(texts)


def _text(value: Any) -> str:
    """A value on one line; nothing for a missing one."""
    return "" if value is None or value != value else " ".join(str(value).split())
