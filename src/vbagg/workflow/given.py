"""Objects that were given in the place of files: kept as files in the folder of a run, and known by their content.

So all that reads files reads them, and the settings of the run can be used again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vbagg.files import written_whole
from vbagg.workflow.digests import file_digest

if TYPE_CHECKING:
    from vbagg.workflow.settings import Settings

GIVEN, RECORD = "given", "given.json"
POLYGONS, TABLES = ("polygons", "to"), ("totals", "shares")
RASTERS = ("population", "population_sd", "spread_by", "friction", "covariate", "category")
POINTS = ("points", "facilities")
KINDS = (
    dict.fromkeys(POLYGONS, ("polygons",))
    | dict.fromkeys(RASTERS, ("raster",))
    | dict.fromkeys(TABLES, ("table",))
    | dict.fromkeys(POINTS, ("table", "polygons"))
)
"""What the words hold that take an object; points stand in a table, or are one with a geometry as polygons are."""
OR_NUMBERS = ("population_sd",)
"""Words that take a number as well."""
WANTED = {"polygons": "a GeoDataFrame", "raster": "an xarray.DataArray", "table": "a pandas.DataFrame"}


@dataclass(frozen=True)
class Given:
    """Options of a run with files in the place of objects, which `write` puts there."""

    words: dict[str, Any]
    objects: dict[Path, Any]

    @classmethod
    def of(cls, words: Mapping[str, Any], folder: Path) -> Given:
        """Choose a file in a folder for each object among the options."""
        objects: dict[Path, Any] = {}

        def file_of(word: str, value: Any) -> Any:
            if isinstance(value, str | os.PathLike) or (word in OR_NUMBERS and isinstance(value, Real)):
                return value
            kind = _kind(value)
            if kind not in KINDS[word]:
                wanted = " or ".join(WANTED[one] for one in KINDS[word])
                raise ValueError(f"`{word}` must be the name of a file, or {wanted}; got {type(value).__name__}.")
            name = re.sub(r"[^\w.=-]+", "_", str(getattr(value, "name", None) or word)) if kind == "raster" else word
            path = folder / (f"{name}.nc" if kind == "raster" else f"{name}.parquet")
            number = 1
            while path in objects:
                number += 1
                path = path.with_name(f"{name}_{number}{path.suffix}")
            objects[path] = value
            return path

        changed = dict(words)
        for word in KINDS:
            value = words.get(word)
            if value is not None:
                several = isinstance(value, list | tuple)
                changed[word] = [file_of(word, item) for item in value] if several else file_of(word, value)
        return cls(changed, objects)

    def write(self) -> None:
        """Write the objects that are not there yet, or are not as they were written."""
        for path, value in self.objects.items():
            content = _content(value)
            if content_of(path) == content and is_whole(path):
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(value, path)
            known = _known(path.parent) | {path.name: {"content": content, "digest": file_digest(path)}}
            with written_whole(path.parent / RECORD) as file:
                file.write(json.dumps(known, indent=1).encode())


def content_of(path: Path) -> str | None:
    """Digest of the object that a file was written from, None if it was not."""
    return _known(path.parent).get(path.name, {}).get("content") if path.parent.name == GIVEN else None


def is_whole(path: Path) -> bool:
    """Whether the file of an object is as it was written."""
    return path.is_file() and file_digest(path) == _known(path.parent)[path.name]["digest"]


def require_whole(settings: Settings) -> None:
    """Refuse files of objects that are missing or have been changed."""
    data, maps = settings.data, settings.maps
    sd = data.population_sd if isinstance(data.population_sd, Path) else None
    tables = (data.totals, data.shares, data.facilities, data.points)
    rasters = (data.population, data.spread_by, data.friction, sd)
    require_whole_files((data.polygons, *tables, *rasters, *data.covariate, *data.category, *maps.to))


def require_whole_files(paths: Iterable[Path | None], by: str = "vbagg.geo.run") -> None:
    """Refuse those of them that are files of objects, written by a function, and are missing or have been changed."""
    for path in paths:
        if path is not None and content_of(path) is not None and not is_whole(path):
            raise ValueError(
                f"{path} must be as `{by}` wrote it; it was changed or is missing. It holds an object: call "
                f"`{by}` with that again."
            )


def _known(folder: Path) -> dict[str, Any]:
    try:
        known = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        whole = isinstance(known, dict) and all(map(_is_record, known.values()))
        return known if whole else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("content", "digest"))


def _kind(value: Any) -> str:
    """Whether an object holds polygons, a raster or a table, or else nothing; its library is loaded if it does."""
    for module, name, kind in (
        ("geopandas", "GeoDataFrame", "polygons"),
        ("xarray", "DataArray", "raster"),
        ("pandas", "DataFrame", "table"),
    ):
        if module in sys.modules and isinstance(value, getattr(sys.modules[module], name)):
            return kind
    return ""


def _content(value: Any) -> str:
    """Digest of all that a file of an object would hold."""
    found = hashlib.sha256()
    parts = {"polygons": _frame_parts, "raster": _array_parts, "table": _table_parts}[_kind(value)]
    for part in parts(value):
        found.update(part.encode() if isinstance(part, str) else part)
    return found.hexdigest()


def _frame_parts(frame: Any) -> Iterable[str | bytes]:
    yield f"{frame.crs} {frame.geometry.name} {[(str(name), str(kind)) for name, kind in frame.dtypes.items()]}"
    yield repr(list(frame.geometry.to_wkb(hex=True)))
    for name in frame.columns.drop(frame.geometry.name):
        yield repr(frame[name].tolist())


def _table_parts(table: Any) -> Iterable[str | bytes]:
    table = _with_index(table)
    yield f"{[(str(name), str(kind)) for name, kind in table.dtypes.items()]}"
    for at in range(table.shape[1]):
        yield repr(table.iloc[:, at].tolist())


def _with_index(table: Any) -> Any:
    """The table with an index that has a name as columns: it may hold the keys."""
    return table.reset_index() if any(table.index.names) else table


def _alike(frame: Any) -> Any:
    """The frame with numbers as text in columns that hold both, such as counts and `<5`."""

    def is_mixed(values: Any) -> bool:
        return values.dtype == object and {True, False} == {isinstance(value, str) for value in values.dropna()}

    mixed = [at for at in range(frame.shape[1]) if is_mixed(frame.iloc[:, at])]
    if not mixed:
        return frame
    frame = frame.copy()
    for at in mixed:
        values = frame.iloc[:, at]
        frame.isetitem(at, values.where(values.isna(), values.astype(str)))
    return frame


def _array_parts(array: Any) -> Iterable[str | bytes]:
    import numpy as np

    yield f"{array.name} {array.dims} {array.dtype} {array.shape} {sorted(map(str, array.attrs.items()))}"
    for name in sorted(array.coords, key=str):
        yield f"{name} {array.coords[name].values!r} {sorted(map(str, array.coords[name].attrs.items()))}"
    for axis in array.coords:
        yield np.ascontiguousarray(array.coords[axis].values).tobytes()
    yield np.ascontiguousarray(array.values).tobytes()


def _write(value: Any, path: Path) -> None:
    from vbagg.geo.files import appearing, one_line

    try:
        with appearing(path) as part:
            if path.suffix == ".parquet":
                frame = value if _kind(value) == "polygons" else _with_index(value)
                _alike(frame).rename(columns=str).to_parquet(part, index=False)
            else:
                plain = value.drop_encoding()
                plain.to_dataset(name=value.name or path.stem).to_netcdf(part, engine="netcdf4")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"An object cannot be kept as {path.name}: {one_line(error)}. Leave out what is not numbers or text, or "
            "write it to a file and name that."
        ) from error
