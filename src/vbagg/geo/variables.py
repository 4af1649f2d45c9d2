"""Variables of NetCDF and Zarr files that lie on a regular grid."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbagg.errors import did_you_mean
from vbagg.geo.files import one_line, require_file, some
from vbagg.geo.grid import Grid

SUFFIXES = (".nc", ".nc4", ".cdf", ".netcdf", ".zarr")
AXES = {
    "x": ({"x", "lon", "long", "longitude", "easting"}, {"longitude", "projection_x_coordinate", "grid_longitude"}),
    "y": ({"y", "lat", "latitude", "northing"}, {"latitude", "projection_y_coordinate", "grid_latitude"}),
}
NUMBERS = "biuf"
DEGREES = ("lon", "long", "longitude", "lat", "latitude")


@dataclass(frozen=True)
class Variable:
    """One variable as its file stores it, on its two spatial dimensions."""

    path: str
    band: str
    label: str
    grid: Grid
    dtype: str
    units: str
    nodata: tuple[float, ...]
    scale: float
    offset: float
    dims: tuple[str, str]
    title: str = ""
    notes: tuple[str, ...] = ()

    def read(self, rows: slice, columns: slice) -> tuple[NDArray[Any], None]:
        """Stored numbers."""
        with _opened(self.path) as dataset:
            array = dataset[self.band]
            flat = array.isel({dim: 0 for dim in array.dims if dim not in self.dims})
            part = flat.isel({self.dims[0]: rows, self.dims[1]: columns}).transpose(*self.dims)
            try:
                return np.asarray(part.values), None
            except Exception as error:  # each engine has its own ways to fail
                raise _unreadable(self.path, error) from None


def is_labelled(path: str) -> bool:
    """Whether a path is a NetCDF or Zarr file by its name, or a Zarr folder by its content."""
    inside = ("zarr.json", ".zgroup", ".zattrs", ".zmetadata")
    return Path(path).suffix.lower() in SUFFIXES or any((Path(path) / name).exists() for name in inside)


def variables_of(path: str, names: tuple[str, ...] | None) -> list[Variable]:
    """Every variable on a regular grid, or those named."""
    with _opened(path) as dataset:
        # a folder lists its variables in any order
        arrays = sorted(dataset.data_vars.items(), key=lambda item: "" if Path(path).is_file() else str(item[0]))
        spatial = {str(name): _spatial_dims(dataset, array) for name, array in arrays}
        gridded = [name for name, dims in spatial.items() if dims and dataset[name].dtype.kind in NUMBERS]
        if not gridded:
            raise ValueError(
                f"{path} must hold a variable on a regular grid with one x and one y coordinate (or longitude and "
                f"latitude); its variables are {some(list(spatial)) or 'none'}. Regrid it first."
            )
        if names is None or len(gridded) == 1:
            names = tuple(gridded)
        for name in names:
            if name not in gridded:
                raise ValueError(f"{path} has no layer {name!r}{did_you_mean(name, gridded)}")
        return [_variable(path, dataset, name, spatial[name]) for name in names]


def _variable(path: str, dataset: Any, name: str, dims: tuple[str, str] | None) -> Variable:
    assert dims is not None
    array = dataset[name]
    place = f"{path}: variable {name!r}"
    for dim in array.dims:
        if dim not in dims and array.sizes[dim] != 1:
            values = some(np.asarray(dataset[dim].values).tolist(), quote=False) if dim in dataset.coords else "unnamed"
            units = f" {dataset[dim].attrs['units']}" if dim in dataset.coords and "units" in dataset[dim].attrs else ""
            raise ValueError(
                f"{place} must have two dimensions, {dims[0]} and {dims[1]}; it also has {dim!r} with "
                f"{array.sizes[dim]} entries ({values}{units}). "
                "Choose one entry or average them, and write that to a file."
            )
    crs, notes = _crs_of(array, dims, place)
    attributes = {**array.encoding, **array.attrs}
    (top, down), (left, right) = (_regular(dataset[dim].values, dim, place) for dim in dims)
    height, width = (array.sizes[dim] for dim in dims)
    grid = Grid(crs, (right, 0.0, left - right / 2, 0.0, down, top - down / 2), height, width)
    codes = [_numbers(attributes, key, place) for key in ("_FillValue", "missing_value")]
    (scale, *_), (offset, *_) = (
        _numbers(attributes, key, place) or usual for key, usual in (("scale_factor", [1.0]), ("add_offset", [0.0]))
    )
    return Variable(
        path=path,
        band=name,
        label=name,
        grid=grid,
        dtype=str(array.dtype),
        units=str(attributes.get("units", "")),
        nodata=tuple({value for code in codes for value in code}),
        scale=scale,
        offset=offset,
        dims=dims,
        title=str(attributes.get("long_name") or attributes.get("standard_name") or "").replace("_", " "),
        notes=notes,
    )


def _numbers(attributes: dict[str, Any], key: str, place: str) -> list[float]:
    """Numbers of an attribute, none if it is not there."""
    held = attributes.get(key)
    try:
        return [] if held is None else [float(value) for value in np.atleast_1d(held)]
    except ValueError:
        raise ValueError(f"{place}: the attribute {key!r} must be a number; got {held!r}. Correct the file.") from None


def _spatial_dims(dataset: Any, array: Any) -> tuple[str, str] | None:
    """Names of the dimensions along y and x, if the variable has both."""
    found = {}
    for dim in array.dims:
        if dim in dataset.coords and dataset[dim].ndim == 1 and dataset[dim].dtype.kind in "iuf":
            attributes = dataset[dim].attrs
            for axis, (words, standard) in AXES.items():
                if (
                    str(dim).lower() in words
                    or attributes.get("standard_name") in standard
                    or attributes.get("axis") == axis.upper()
                ):
                    found[axis] = str(dim)
    return (found["y"], found["x"]) if len(found) == 2 else None


def _regular(values: NDArray[Any], dim: str, place: str) -> tuple[float, float]:
    """First value and step of an evenly spaced coordinate."""
    values = np.asarray(values, dtype=np.float64)
    if values.size < 2 or not np.isfinite(values).all():
        raise ValueError(f"{place} must have at least two finite values of {dim!r}; got {values.size}.")
    step = (values[-1] - values[0]) / (values.size - 1)
    if step == 0 or np.abs(np.diff(values) / step - 1).max() > 0.02:
        raise ValueError(f"{place} must be on a regular grid; the steps of {dim!r} differ. Regrid it first.")
    return float(values[0]), float(step)


def _crs_of(array: Any, dims: tuple[str, str], place: str) -> tuple[str, tuple[str, ...]]:
    import rioxarray  # noqa: F401  (adds the accessor `rio`)

    crs = array.rio.crs
    if crs is not None:
        return crs.to_wkt(), ()
    if all(dim.lower() in DEGREES or "degree" in str(array[dim].attrs.get("units", "")) for dim in dims):
        return "EPSG:4326", (f"{place} names no CRS; its longitudes and latitudes were read as EPSG:4326.",)
    raise ValueError(
        f"{place} must say its coordinate reference system; it has no grid mapping. "
        "Add it, for example with `rioxarray`: `data.rio.write_crs('EPSG:32738')`."
    )


def _unreadable(path: str, error: Exception) -> ValueError:
    return ValueError(f"{path} cannot be read as a raster: {one_line(error)}. Is the file complete?")


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    import xarray

    require_file(path, "a raster")
    is_file = Path(path).is_file()
    options = {"engine": "netcdf4"} if is_file else {"engine": "zarr", "consolidated": False}
    try:
        dataset = xarray.open_dataset(
            path, mask_and_scale=False, decode_times=False, decode_coords="all", chunks=None, **options
        )
    except Exception as error:  # each engine has its own ways to fail
        raise _unreadable(path, error) from None
    with dataset:
        yield dataset
