"""Ways to damage the folder of prepared data, and the table, rasters and polygons in it."""

import json
import os
import shutil
import warnings

import geopandas as gpd
import numpy as np
import pandas as pd
import rasterio
from fuzzing import DEEPEST, JSON, changed_bytes, replaced
from geofiles import write_raster
from hypothesis import strategies as st
from shapely import Point, Polygon

DOCUMENT, PIXELS, POLYGONS, STACK = FILES = ("prepared.json", "pixels.parquet", "polygons.gpkg", "stack.tif")
ODD = [np.nan, np.inf, -np.inf, -1, -0.0, 0, 1e300, 10**18, 2**63 - 1, "x", "", None, True]
KINDS = ["str", "int32", "float32", "float64", "object", "bool", "category", "datetime64[ns]", "timedelta64[ns]"]


def damage_file(draw, folder, foreign):
    """A file is missing, empty, cut, another one, that of other data, a folder, or a link."""
    file = folder / draw(st.sampled_from(FILES))
    how = draw(
        st.sampled_from(["missing", "empty", "bytes", "swapped", "foreign", "folder", "link", "dangling", "deep"])
    )
    content = file.read_bytes()
    if how != "bytes":
        file.unlink()
    if how == "empty":
        file.touch()
    elif how == "bytes":
        file.write_bytes(changed_bytes(draw, content))
    elif how == "swapped":
        shutil.copyfile(foreign / draw(st.sampled_from(FILES)), file)
    elif how == "foreign":
        shutil.copyfile(foreign / file.name, file)
    elif how == "folder":
        file.mkdir()
    elif how == "link":
        file.symlink_to(foreign / file.name)
    elif how == "dangling":
        file.symlink_to(folder.parent / "escaped")
    elif how == "deep":
        file.write_bytes(DEEPEST)


def damage_document(draw, folder, foreign):
    """Something else stands in the place of one or two values, or is missing."""
    path = folder / DOCUMENT
    document = json.loads(path.read_text())
    for _ in range(draw(st.integers(1, 2))):
        document = replaced(
            draw, document, JSON | st.sampled_from(["cases", "height", "area", "population", "U9999999"])
        )
    path.write_text(json.dumps(document))


def damage_table(draw, folder, foreign):
    """Columns or rows of the pixels are others."""
    path = folder / PIXELS
    table = pd.read_parquet(path)
    for _ in range(draw(st.integers(1, 2))):
        if len(table.columns):
            table = _other_table(draw, table)
    try:
        table.to_parquet(path)
    except Exception:  # a table that cannot be written says nothing
        path.unlink()


def _other_table(draw, table):
    column = draw(st.sampled_from(list(table.columns)))
    how = draw(st.sampled_from(["drop", "add", "rename", "retype", "set", "scale", "rows", "index", "order"]))
    if how == "drop":
        return table.drop(columns=column)
    if how == "add":
        return table.assign(**{draw(st.text(max_size=4)): draw(st.sampled_from(ODD))})
    if how == "rename":
        other = draw(st.sampled_from([*table.columns, "geometry", "", "X"]))
        return table.rename(columns={column: other}) if other not in table else table
    if how == "retype":
        kind = draw(st.sampled_from(KINDS))
        try:
            with np.errstate(all="ignore"):
                return table.astype({column: kind})
        except (TypeError, ValueError):
            return table
    if how == "set":
        values = table[column].astype(object)
        values.iloc[draw(st.lists(st.integers(0, max(len(table) - 1, 0)), max_size=3)) if len(table) else []] = draw(
            st.sampled_from(ODD)
        )
        return table.assign(**{column: values if draw(st.booleans()) else values.infer_objects()})
    if how == "scale" and pd.api.types.is_numeric_dtype(table[column]) and table[column].dtype != bool:
        with np.errstate(all="ignore"):
            return table.assign(**{column: table[column].to_numpy() * draw(st.sampled_from([0, -1, 2, 10**12]))})
    if how == "rows":
        chosen = draw(st.lists(st.integers(0, max(len(table) - 1, 0)), max_size=6)) if len(table) else []
        return draw(
            st.sampled_from(
                [table.drop(index=table.index[chosen]), table.iloc[chosen], pd.concat([table, table.iloc[chosen]])]
            )
        )
    if how == "order":
        return table.iloc[::-1]
    return table.set_index(column)


def damage_stack(draw, folder, foreign):
    """The raster has another size, place, type, CRS or number of bands, or other values."""
    path = folder / STACK
    with rasterio.open(path) as source:
        planes, transform, crs, names = source.read(), source.transform, source.crs, list(source.descriptions)
    how = draw(
        st.sampled_from(
            ["rows", "columns", "bands", "no bands", "type", "crs", "place", "names", "values", "vrt", "vast"]
        )
    )
    if how in ("rows", "columns"):
        axis, by = (1, 2)[how == "columns"], draw(st.sampled_from([-8, -1, 1, 40]))
        planes = (
            np.delete(planes, np.s_[by:], axis)
            if by < 0
            else np.pad(planes, [(0, by if a == axis else 0) for a in range(3)])
        )
    elif how in ("bands", "no bands"):
        keep = 1 if how == "no bands" else draw(st.integers(1, 6))
        planes = planes[np.arange(keep) % len(planes)]
        names = [names[k % len(names)] for k in range(keep)]
    elif how == "type":
        with np.errstate(all="ignore"):
            kind = draw(st.sampled_from(["float64", "int16", "uint8", "complex64"]))
            planes = np.nan_to_num(planes).astype(kind)
    elif how == "crs":
        crs = draw(st.sampled_from([None, "EPSG:3857", "EPSG:32636", "EPSG:4979", 'LOCAL_CS["x",UNIT["metre",1]]']))
    elif how == "place":
        a, b, c, d, e, f = draw(st.lists(st.sampled_from([0, 1, -1, 0.1, 1e9, 1e-300, 30.2]), min_size=6, max_size=6))
        transform = rasterio.Affine(a, b, c, d, e, f)
    elif how == "names":
        names = draw(st.permutations(names) | st.just([None] * len(names)) | st.just(["height"] * len(names)))
    elif how == "values":
        at = tuple(draw(st.integers(0, n - 1)) for n in planes.shape)
        value = draw(st.sampled_from([np.nan, np.inf, -1.0, 3e38]))
        planes[at if draw(st.booleans()) else at[0]] = value
    if how == "vrt":
        path.write_text(vrt(foreign / STACK))
    elif how == "vast":
        write_vast(path, transform, crs, names)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write_raster(path, planes, transform, crs, descriptions=tuple(names))


def vrt(source):
    """A raster of another kind, that shows a file elsewhere."""
    band = f"<SimpleSource><SourceFilename>{source}</SourceFilename><SourceBand>1</SourceBand></SimpleSource>"
    return (
        '<VRTDataset rasterXSize="9" rasterYSize="12"><SRS>EPSG:4326</SRS>'
        "<GeoTransform>30.2, 0.1, 0, -1.3, 0, -0.05</GeoTransform>"
        f'<VRTRasterBand dataType="Float32" band="1">{band}</VRTRasterBand></VRTDataset>'
    )


def write_vast(path, transform, crs, names):
    """Two hundred million million cells, of which none is stored."""
    path.unlink()
    with rasterio.open(
        path, "w", driver="GTiff", dtype="float32", count=len(names), height=200_000, width=1_000_000, crs=crs,
        transform=transform, sparse_ok=True, tiled=True, blockxsize=8192, blockysize=8192, bigtiff="YES",
    ) as dataset:  # fmt: skip
        dataset.descriptions = tuple(names)


def damage_polygons(draw, folder, foreign):
    """Columns, rows or shapes of the polygons are others."""
    path = folder / POLYGONS
    frame = gpd.read_file(path)
    column = draw(st.sampled_from([name for name in frame if name != "geometry"]))
    how = draw(st.sampled_from(["drop", "rename", "set", "text", "rows", "order", "shapes", "crs", "plain", "layers"]))
    row = draw(st.integers(0, len(frame) - 1))
    if how == "drop":
        frame = frame.drop(columns=column)
    elif how == "rename":
        frame = frame.rename(columns={column: "other"})
    elif how == "set":
        values = frame[column].tolist()
        values[row] = draw(st.sampled_from(ODD if not isinstance(values[0], str) else ["", None, "D01", "x"]))
        frame[column] = pd.Series(values)
    elif how == "text":
        frame[column] = frame[column].astype(str)
    elif how == "rows":
        frame = frame.iloc[draw(st.lists(st.integers(0, len(frame) - 1), max_size=14))]
    elif how == "order":
        frame = frame.iloc[::-1]
    elif how == "shapes":
        bow = Polygon([(30, -1), (31, -2), (31, -1), (30, -2)])
        frame.loc[row, "geometry"] = draw(st.sampled_from([None, Point(30, -1), Polygon(), bow]))
    elif how == "crs":
        frame = frame.set_crs(draw(st.sampled_from([3857, 32636])), allow_override=True)
    path.unlink()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if how == "plain":
                frame.drop(columns="geometry").to_csv(path)
            else:
                frame.to_file(path, driver="GPKG", layer="polygons")
                if how == "layers":
                    frame.head(2).to_file(path, driver="GPKG", layer="another")
    except Exception:  # polygons that cannot be written say nothing
        path.unlink(missing_ok=True)


DAMAGES = [damage_file, damage_document, damage_table, damage_stack, damage_polygons]


def copied(original, folder):
    """A fresh copy of a folder, in the place of the last one."""
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        folder.unlink()
    shutil.copytree(original, folder)
    return folder
