const GRATICULE_STEPS = [45, 30, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001];

/** Lines of equal longitude and latitude behind the pixels, labelled at the edges of the view. */
function addGraticule(map) {
  const pane = map.createPane("graticule");
  pane.style.zIndex = 150;
  const lines = L.layerGroup().addTo(map);
  const redraw = () => {
    lines.clearLayers();
    const view = map.getBounds();
    const step = graticuleStep(map);
    const decimals = Math.max(0, Math.ceil(-Math.log10(step)));
    for (const lng of multiples(view.getWest(), view.getEast(), step)) {
      addLine(lines, [view.getSouth(), lng], [view.getNorth(), lng]);
      if (roomForLabel(map, lng)) addLabel(lines, [view.getNorth(), lng], longitudeText(lng, decimals), "meridian");
    }
    for (const lat of multiples(Math.max(-90, view.getSouth()), Math.min(90, view.getNorth()), step)) {
      addLine(lines, [lat, view.getWest()], [lat, view.getEast()]);
      addLabel(lines, [lat, view.getWest()], latitudeText(lat, decimals), "parallel");
    }
  };
  map.on("moveend resize", redraw);
  redraw();
}

/** The smallest round step that leaves 90 points between lines. */
function graticuleStep(map) {
  const height = map.getBounds().getNorth() - map.getBounds().getSouth();
  const least = (90 * height) / map.getSize().y;
  return GRATICULE_STEPS.findLast((step) => step >= least) ?? GRATICULE_STEPS[0];
}

function multiples(from, to, step) {
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.max(0, Math.floor(to / step) - first + 1) }, (_, i) => (first + i) * step);
}

/** Labels of longitude keep clear of the zoom buttons. */
function roomForLabel(map, lng) {
  return map.latLngToContainerPoint([map.getCenter().lat, lng]).x < map.getSize().x - 100;
}

function addLine(lines, start, end) {
  L.polyline([start, end], { pane: "graticule", className: "graticule", interactive: false }).addTo(lines);
}

function addLabel(lines, place, text, kind) {
  const icon = L.divIcon({ className: `degrees ${kind}`, html: element("span", {}, text), iconSize: [0, 0] });
  L.marker(place, { pane: "graticule", icon, interactive: false, keyboard: false }).addTo(lines);
}
