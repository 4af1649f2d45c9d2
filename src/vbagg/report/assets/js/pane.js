/** What lies above the pixels, by its height. */
const PANES = { land: 410, outlines: 420, cities: 425, highlight: 430 };

/** One map with its title, layer menu and legend. */
function makePane(context, side) {
  const { settings, layers, districts, orientation } = context;
  const titleId = `vbagg-title-${side}`;
  const title = element("h3", { id: titleId });
  const menu = element("select", { "aria-label": say(side === "left" ? "viewer.layer_left" : "viewer.layer_right") });
  menu.append(...layers.map(({ name, label }) => element("option", { value: name }, label)));
  const about = element("p", { class: "about" });
  const ground = element("div", { class: "ground" });
  const legend = element("div", { class: "legend" });
  const node = element(
    "div",
    { class: "pane", role: "group", "aria-labelledby": titleId },
    element("div", { class: "heading" }, title, menu, about),
    ground,
    legend,
  );
  byId("vbagg-panes").append(node);

  const map = makeMap(ground, settings);
  const canvas = element("canvas", { width: settings.width, height: settings.height, class: "pixels" });
  // Leaflet's overlay of a supplied element serves any element, not only SVG.
  const overlay = L.svgOverlay(canvas, boxOf(settings.bounds)).addTo(map);
  keepCrisp(canvas, map, settings);
  const lines = districts ? outlines(districts) : null;
  const land = orientation ? orientationLayer(map, orientation) : null;
  const marked = highlight();
  marked.layer.addTo(map);
  const pane = { side, node, map, menu, layer: null, probe: makeProbe(map), mark: marked.show };

  pane.show = async (layer) => {
    pane.layer = layer;
    const finish = await paint(canvas, layer);
    if (pane.layer !== layer) return;
    finish();
    menu.value = layer.name;
    title.textContent = layer.label;
    about.replaceChildren(...explained(layer.description));
    legend.replaceChildren(...legendOf(layer));
    ground.setAttribute("aria-label", mapLabel(layer));
    node.dataset.layer = layer.name;
    [layer.lower, layer.upper].forEach((name) => named(layers, name)?.codes());
  };
  pane.setOpacity = (opacity) => overlay.setOpacity(opacity);
  pane.setOutlines = (visible) => lines && (visible ? lines.addTo(map) : lines.remove());
  pane.setOrientation = (visible) => land && (visible ? land.addTo(map) : land.remove());
  pane.home = () => goHome(map, settings);
  return pane;
}

function mapLabel({ label, units }) {
  const name = units ? `${label}, ${units}` : label;
  return say("viewer.map_of", { name });
}

function goHome(map, settings) {
  map.fitBounds(boxOf(settings.home), { padding: [20, 20], animate: false });
}

/** Sharp edges where pixels are large enough to be seen, averages where several share a point of the screen. */
function keepCrisp(canvas, map, settings) {
  const update = () => canvas.classList.toggle("crisp", map.getZoom() >= zoomForPixels(1, settings));
  map.on("zoomend", update);
  update();
}

function makeMap(ground, settings) {
  const map = L.map(ground, {
    crs: planeOf(settings.bounds),
    attributionControl: false,
    zoomControl: false,
    zoomSnap: 0.1,
    wheelPxPerZoomLevel: 120,
    keyboardPanDelta: 40,
    scrollWheelZoom: false,
  });
  Object.entries(PANES).forEach(([name, height]) => {
    Object.assign(map.createPane(name).style, { zIndex: height, pointerEvents: "none" });
  });
  goHome(map, settings);
  map.setMinZoom(map.getZoom() - 2);
  map.setMaxZoom(Math.max(map.getZoom() + 2, zoomForPixels(32, settings)));
  addGraticule(map);
  L.control.zoom({ position: "topright", zoomInTitle: say("viewer.zoom_in"), zoomOutTitle: say("viewer.zoom_out") }).addTo(map);
  L.control.scale({ imperial: false, position: "bottomright" }).addTo(map);
  ground.setAttribute("role", "application");
  // The wheel scrolls the page until the reader turns to the map.
  ground.addEventListener("focus", () => map.scrollWheelZoom.enable());
  ground.addEventListener("blur", () => map.scrollWheelZoom.disable());
  return map;
}
