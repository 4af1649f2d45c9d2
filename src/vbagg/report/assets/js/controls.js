/** The list of layers: native radio buttons, so arrow keys move through it. */
function fillLayerList(layers, choose) {
  const list = byId("vbagg-layers");
  for (const layer of layers) {
    const radio = element("input", { type: "radio", name: "vbagg-layer", value: layer.name });
    radio.addEventListener("change", () => choose(layer));
    list.append(element("label", {}, radio, swatch(layer), element("span", { class: "text" }, layer.label)));
  }
}

function markChosen(layer) {
  for (const radio of document.getElementsByName("vbagg-layer")) radio.checked = radio.value === layer.name;
}

function swatch({ palette }) {
  const node = element("span", { class: "swatch", "aria-hidden": "true" });
  if (palette) node.append(stripe(palette));
  return node;
}

function connectToolbar({ compare, outlines, orientation, opacity, reset }) {
  byId("vbagg-compare").addEventListener("change", (event) => compare(event.target.checked));
  byId("vbagg-outlines").addEventListener("change", (event) => outlines(event.target.checked));
  byId("vbagg-orientation-shown").addEventListener("change", (event) => orientation(event.target.checked));
  byId("vbagg-opacity").addEventListener("input", (event) => {
    byId("vbagg-opacity-text").textContent = event.target.value + texts.marks.percent;
    opacity(event.target.value / 100);
  });
  byId("vbagg-reset").addEventListener("click", reset);
}
