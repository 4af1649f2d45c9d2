"""From polygons and rasters to maps and a report, stage by stage, in one folder."""
