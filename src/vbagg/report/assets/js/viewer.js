/** The map viewer: state, and what happens when it changes. */
async function startViewer() {
  const settings = JSON.parse(byId("vbagg-settings").textContent);
  const layers = makeLayers(settings);
  byId("vbagg-board").hidden = false;
  const [districts, orientation] = await Promise.all([loadDistricts(), loadOrientation(), layers[0].codes()]);
  const viewer = makeViewer({ settings, layers, districts, orientation });
  await viewer.start();
  document.documentElement.dataset.viewer = "ready";
  performance.mark("vbagg-ready");
}

function makeViewer(context) {
  const { settings, layers, districts, orientation } = context;
  const panes = [];
  const state = { comparing: false, opacity: 1, outlines: true, orientation: true, pinned: null, asked: 0, atHome: true };
  const visiblePanes = () => (state.comparing ? panes : panes.slice(0, 1));

  const addPane = async (side, layer) => {
    const pane = makePane(context, side);
    panes.push(pane);
    pane.setOpacity(state.opacity);
    pane.setOutlines(state.outlines);
    pane.setOrientation(state.orientation);
    pane.menu.addEventListener("change", () => choose(pane, named(layers, pane.menu.value)));
    listen(pane, { ask, release, pin });
    pane.map.on("movestart", () => (state.atHome = false));
    new ResizeObserver(() => resize(pane)).observe(pane.map.getContainer());
    await pane.show(layer);
  };

  const choose = async (pane, layer) => {
    await pane.show(layer);
    if (pane === panes[0]) markChosen(layer);
    if (state.pinned) ask(state.pinned);
  };

  /** Read the point in every visible pane. */
  const ask = async (question) => {
    const turn = ++state.asked;
    if (question.target) return showTarget(question);
    const { point, origin, spoken } = question;
    const index = pixelAt(point, settings);
    const found = districtsAt(districts, point);
    const shown = visiblePanes();
    const readings = await Promise.all(shown.map((pane) => reading(pane.layer, layers, index)));
    if (turn !== state.asked) return;
    byId("vbagg-readout").setAttribute("aria-live", spoken ? "polite" : "off");
    showReadout({ readings, districts: found, point });
    shown.forEach((pane, i) => {
      pane.probe.show(point, labelTexts(readings[i]), pane !== origin);
      pane.mark(state.outlines ? found : []);
    });
  };

  const showTarget = ({ target, from }) => {
    byId("vbagg-readout").setAttribute("aria-live", "off");
    showVisited(target, from);
    visiblePanes().forEach((pane) => {
      pane.probe.hide();
      pane.mark([target]);
    });
  };

  const release = () => {
    byId("vbagg-board").classList.toggle("visiting", Boolean(state.pinned?.target));
    if (state.pinned) return ask(state.pinned);
    state.asked++;
    panes.forEach((pane) => {
      pane.probe.hide();
      pane.mark([]);
    });
    showHint();
  };

  const pin = (question) => {
    state.pinned = question;
    release();
  };

  /** Go to an area of a table, mark it, and tell what is known of it until the reader chooses another place. */
  const visit = ({ district, bounds, facts, from }) => {
    const target = district === null ? framed(boxOf(bounds), facts) : districts[district];
    state.atHome = false;
    state.pinned = null;
    byId("vbagg-panes").scrollIntoView({ behavior: isStill() ? "auto" : "smooth" });
    panes[0].map.flyToBounds(target.box, { padding: [30, 30], animate: !isStill(), duration: 0.8 });
    state.pinned = { target, from };
    release();
    byId("vbagg-readout").focus({ preventScroll: true });
  };

  const home = () => {
    visiblePanes().forEach((pane) => pane.home());
    state.atHome = true;
  };

  const resize = (pane) => {
    if (!visiblePanes().includes(pane)) return;
    const { atHome } = state;
    pane.map.invalidateSize({ animate: false });
    if (atHome) home();
  };

  /** Give the maps the width of paper, or that of the window again. */
  const print = (printing) => {
    document.documentElement.classList.toggle("printing", printing);
    visiblePanes().forEach(resize);
  };

  const compare = async (comparing) => {
    const { atHome } = state;
    state.comparing = comparing;
    byId("vbagg-board").classList.toggle("comparing", comparing);
    if (comparing && panes.length === 1) {
      await addPane("right", named(layers, settings.compare));
      keepTogether(panes[0].map, panes[1].map);
    }
    visiblePanes().forEach((pane) => pane.map.invalidateSize({ animate: false }));
    if (atHome) home();
    else panes.at(-1).map.setView(panes[0].map.getCenter(), panes[0].map.getZoom(), { animate: false });
    release();
  };

  const start = async () => {
    fillLayerList(layers, (layer) => choose(panes[0], layer));
    markChosen(layers[0]);
    byId("vbagg-outlines-label").hidden = districts === null;
    byId("vbagg-orientation-label").hidden = orientation === null;
    byId("vbagg-compare-label").hidden = layers.length === 1;
    connectToolbar({
      compare,
      reset: home,
      outlines: (visible) => {
        state.outlines = visible;
        panes.forEach((pane) => pane.setOutlines(visible));
      },
      orientation: (visible) => {
        state.orientation = visible;
        panes.forEach((pane) => pane.setOrientation(visible));
      },
      opacity: (opacity) => {
        state.opacity = opacity;
        panes.forEach((pane) => pane.setOpacity(opacity));
      },
    });
    for (const event of ["beforeprint", "afterprint"]) addEventListener(event, () => print(event === "beforeprint"));
    showHint();
    await addPane("left", layers[0]);
    document.addEventListener("vbagg-visit", ({ detail }) => visit(detail));
  };
  return { start };
}

/** Pointer, tap and keyboard on a map: ask for a point, let go of it, or keep it. */
function listen(pane, { ask, release, pin }) {
  const { map } = pane;
  const ground = map.getContainer();
  map.on("mousemove", ({ latlng }) => ask({ point: latlng, origin: pane }));
  map.on("mouseout", release);
  map.on("click", ({ latlng }) => pin({ point: latlng, origin: null }));
  const pinCentre = () => pin({ point: map.getCenter(), origin: null, spoken: true });
  let byKeyboard = false;
  let pressed = false;
  ground.addEventListener("pointerdown", () => {
    pressed = true;
    byKeyboard = false;
  });
  ground.addEventListener("focus", () => {
    byKeyboard = !pressed;
    if (byKeyboard) pinCentre();
  });
  ground.addEventListener("blur", () => {
    if (byKeyboard) pin(null);
    byKeyboard = pressed = false;
  });
  ground.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") pin(null);
    else if (/^(Arrow|[+=-]$)/.test(key)) byKeyboard = true;
  });
  map.on("moveend", () => byKeyboard && pinCentre());
}
