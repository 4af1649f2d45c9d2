"""What the report's viewer shows, near the antimeridian too."""

import numpy as np
import pytest
import shapely
from affine import Affine
from geofiles import districts, write_raster
from shapely import box

from vbagg.geo.display import burnt, display_frame, outlines, shown

VALUES = np.arange(1, 201, dtype=np.float32).reshape(10, 20)


@pytest.mark.parametrize(
    ("crs", "transform", "left"),
    [
        ("EPSG:4326", Affine(0.2, 0, 178, 0, -0.1, -17), 178),
        ("EPSG:3460", Affine(22_000, 0, 1_900_000, 0, -11_000, 4_000_000), 177.79),
        ("EPSG:32636", Affine(22_000, 0, 400_000, 0, -11_000, 4_000_000), 31.9),
    ],
)
def test_a_frame_is_as_wide_as_its_raster(tmp_path, crs, transform, left):
    path = write_raster(tmp_path / "map.tif", VALUES, transform, crs=crs, nodata=np.nan)
    frame = display_frame(path)
    west, south, east, north = frame.bounds
    assert west == pytest.approx(left, abs=0.3)
    assert 3 < east - west < 6
    assert 0.7 < frame.shape[0] * frame.shape[1] / VALUES.size < 1.3
    values, _ = shown(path, frame)
    assert np.isfinite(values).mean() > 0.9
    assert np.nanmean(values) == pytest.approx(VALUES.mean(), rel=0.05)
    middle, height = (west + east) / 2, north - south
    halves = [box(west, south, middle, north - height / 2), box(middle, south, east, north)]
    table = districts(halves).to_crs(crs)
    share = [(burnt(table, "cases", frame) == total).mean() for total in (3, 8)]
    assert share == pytest.approx([0.25, 0.5], abs=0.06)
    drawn = outlines(table, frame)["features"]
    bounds = shapely.total_bounds([shapely.geometry.shape(feature["geometry"]) for feature in drawn])
    np.testing.assert_allclose(bounds, frame.bounds, atol=0.3)
