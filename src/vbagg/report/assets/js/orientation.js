/** In points: the height of a name, from a dot to its name, between dots, and around names. */
const CITY = { height: 15, reach: 6, apart: 48, room: 6 };

/** Coasts, borders and cities; null if the report has none. */
async function loadOrientation() {
  const packed = await unpacked("vbagg-orientation");
  if (packed === null) return null;
  const lines = (all) => all.map((steps) => lineFromSteps(steps, packed.step));
  return { coasts: lines(packed.coasts), borders: lines(packed.borders), cities: packed.cities };
}

/** Points from whole numbers: longitude and latitude of the first, then the steps to the others. */
function lineFromSteps(steps, step) {
  const points = [];
  for (let i = 0, lng = 0, lat = 0; i < steps.length; i += 2) {
    lng += steps[i];
    lat += steps[i + 1];
    points.push([lat * step, lng * step]);
  }
  return points;
}

/** Coasts and borders below the outlines of districts, names of cities above them. */
function orientationLayer(map, orientation) {
  const kinds = [["coasts", "coast rim"], ["coasts", "coast line"], ["borders", "border"]];
  const lines = kinds.map(([name, kind]) => borders(orientation[name], "land", kind));
  return L.layerGroup([...lines, cityLayer(map, orientation.cities)]);
}

/** Names that do not touch, those of the first cities first; there are more of them as one zooms in. */
function cityLayer(map, cities) {
  const layer = L.layerGroup();
  const redraw = () => {
    layer.clearLayers();
    for (const label of cityLabels(map, cities)) cityMarker(label).addTo(layer);
  };
  layer.on("add", () => {
    map.on("moveend resize", redraw);
    redraw();
  });
  layer.on("remove", () => map.off("moveend resize", redraw));
  return layer;
}

/** Cities whose names have room in the view; a suburb has none beside its city. */
function cityLabels(map, cities) {
  const view = L.bounds([0, 0], map.getSize());
  const widthOf = textMeasure(map);
  const taken = boxesInUse(map);
  const labels = [];
  for (const [name, lng, lat] of cities) {
    const dot = map.latLngToContainerPoint([lat, lng]);
    const near = labels.some((other) => other.dot.distanceTo(dot) < CITY.apart);
    if (near || !view.contains(dot) || taken.some((box) => box.contains(dot))) continue;
    const isFree = (box) => view.contains(box) && !taken.some((other) => other.overlaps(box));
    const box = besideDot(dot, widthOf(name)).find(isFree);
    if (!box) continue;
    taken.push(widened(box, CITY.room), widened(L.bounds(dot, dot), CITY.reach / 2));
    labels.push({ name, dot, box, place: [lat, lng] });
  }
  return labels;
}

/** Where buttons, the scale and the degrees are. */
function boxesInUse(map) {
  const container = map.getContainer();
  const { left, top } = container.getBoundingClientRect();
  return [...container.querySelectorAll(".leaflet-control, .degrees span")].map((node) => {
    const box = node.getBoundingClientRect();
    return L.bounds([box.left - left, box.top - top], [box.right - left, box.bottom - top]);
  });
}

function textMeasure(map) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `12px ${getComputedStyle(map.getContainer()).fontFamily}`;
  return (text) => pen.measureText(text).width;
}

/** Where a name may stand: to the right of its dot, to the left, above or below. */
function besideDot({ x, y }, width) {
  const { height, reach } = CITY;
  const corners = [
    [x + reach, y - height / 2],
    [x - reach - width, y - height / 2],
    [x - width / 2, y - reach - height],
    [x - width / 2, y + reach],
  ];
  return corners.map(([left, top]) => L.bounds([left, top], [left + width, top + height]));
}

function widened(box, by) {
  return L.bounds(box.min.subtract([by, by]), box.max.add([by, by]));
}

function cityMarker({ name, dot, box, place }) {
  const text = element("span", { class: "name" }, name);
  const { x, y } = box.min.subtract(dot);
  text.style.transform = `translate(${x}px, ${y}px)`;
  const html = element("div", {}, element("span", { class: "dot" }), text);
  const icon = L.divIcon({ className: "city", html, iconSize: [0, 0] });
  return L.marker(place, { pane: "cities", icon, interactive: false, keyboard: false });
}
