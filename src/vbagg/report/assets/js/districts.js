/** Districts with their boxes; null if the report has none. */
async function loadDistricts() {
  const packed = await unpacked("vbagg-districts");
  if (packed === null) return null;
  const { geometries, facts } = packed;
  return geometries.map((geometry, i) => ({ geometry, facts: facts[i], box: L.geoJSON(geometry).getBounds() }));
}

function districtsAt(districts, point) {
  return (districts ?? []).filter(({ box, geometry }) => box.contains(point) && covers(geometry, point));
}

function covers(geometry, point) {
  const polygons = geometry.type === "Polygon" ? [geometry.coordinates] : geometry.coordinates;
  return polygons.some((rings) => rings.filter((ring) => crossings(ring, point) % 2 === 1).length % 2 === 1);
}

/** How often a ring crosses the line from the point to the east. */
function crossings(ring, { lng, lat }) {
  let count = 0;
  for (let i = 0, j = ring.length - 1; i < ring.length; j = i++) {
    const [x, y] = ring[i];
    const [previousX, previousY] = ring[j];
    if (y > lat !== previousY > lat && lng < ((previousX - x) * (lat - y)) / (previousY - y) + x) count++;
  }
  return count;
}

/** Outlines on a map: a dark line with a light rim, so that it shows on any colour. */
function outlines(districts) {
  const rings = districts.flatMap(({ geometry }) => ringsOf(geometry));
  return L.layerGroup(["rim", "line"].map((kind) => borders(rings, "outlines", kind)));
}

/** An area of which the map knows its box alone. */
function framed(box, facts) {
  const [[west, south], [east, north]] = [box.getSouthWest(), box.getNorthEast()].map(({ lng, lat }) => [lng, lat]);
  const ring = [[west, south], [east, south], [east, north], [west, north], [west, south]];
  return { box, facts, geometry: { type: "Polygon", coordinates: [ring] } };
}

function ringsOf({ type, coordinates }) {
  return L.GeoJSON.coordsToLatLngs(type === "Polygon" ? coordinates : coordinates.flat(), 1);
}

function borders(rings, pane, kind) {
  return L.polyline(rings, { pane, className: `${pane} ${kind}`, interactive: false });
}

function highlight() {
  const layers = ["rim", "line"].map((kind) => borders([], "highlight", kind));
  let shown = [];
  return {
    layer: L.layerGroup(layers),
    show(districts) {
      if (districts.length === shown.length && districts.every((district, i) => district === shown[i])) return;
      shown = districts;
      const rings = districts.flatMap(({ geometry }) => ringsOf(geometry));
      layers.forEach((layer) => layer.setLatLngs(rings));
    },
  };
}
