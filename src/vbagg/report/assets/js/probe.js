/** A ring at a point of a map, with a label that stays inside the map. */
function makeProbe(map) {
  const ring = element("span", { class: "ring" });
  const label = element("span", { class: "label" });
  const node = element("div", { class: "probe", "aria-hidden": "true", hidden: true }, ring, label);
  map.getContainer().append(node);
  let point = null;
  const place = () => {
    if (point === null) return;
    const { x, y } = map.latLngToContainerPoint(point);
    const size = map.getSize();
    node.style.transform = `translate(${x}px, ${y}px)`;
    node.hidden = x < 0 || y < 0 || x > size.x || y > size.y;
    label.style.transform = `translate(${beside(x, label.offsetWidth, size.x)}px, ${beside(y, label.offsetHeight, size.y)}px)`;
  };
  map.on("move zoom viewreset resize", place);
  map.on("zoomstart", () => (node.hidden = true));
  map.on("zoomend", place);
  return {
    show(where, texts, withRing) {
      point = where;
      label.replaceChildren(...texts.map((text) => element("span", {}, text)));
      node.classList.toggle("bare", !withRing);
      place();
    },
    hide() {
      point = null;
      node.hidden = true;
    },
  };
}

/** Shift of a label of some length from a place: beyond it, before it if there is no room, but never off the map. */
function beside(place, length, room) {
  const gap = 14;
  const fits = place + gap + length < room;
  const start = fits ? place + gap : place - gap - length;
  return Math.max(4, Math.min(start, room - length - 4)) - place;
}
