/** Colour bar with ticks and units. */
function legendOf(layer) {
  if (layer.scale === null) return [element("p", { class: "empty" }, say("viewer.no_values"))];
  const bar = element("div", { class: "bar" }, arrow("below", layer), stripe(layer.palette), arrow("above", layer));
  const marks = layer.scale.ticks.map(({ place, text }) => {
    const mark = element("span", { class: "tick" }, text);
    mark.style.left = `${100 * place}%`;
    return mark;
  });
  const notes = [["unit", layer.units], ["scaling", layer.scale.log && say("viewer.logarithmic")], ["gap", layer.gaps && say("viewer.no_value")]];
  const shown = notes.filter(([, text]) => text).map(([kind, text]) => element("span", { class: kind }, text));
  return [
    element("div", { class: "scale", role: "img", "aria-label": scaleLabel(layer.scale) }, bar, element("div", { class: "ticks" }, ...marks)),
    element("p", { class: "units" }, ...shown),
  ];
}

function scaleLabel({ ticks }) {
  return say("viewer.marks", { marks: ticks.map(({ text }) => text).join("; ") });
}

function stripe(palette) {
  const canvas = element("canvas", { class: "stripe", width: 256, height: 1, "aria-hidden": "true" });
  const image = new ImageData(256, 1);
  palette.forEach((colour, i) => image.data.set([...colour, 255], 4 * i));
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** The end of the bar: pointed where values lie beyond it. */
function arrow(side, { scale, palette }) {
  const node = element("span", { class: `arrow ${side}`, "aria-hidden": "true" });
  node.style.color = scale[side] ? `rgb(${palette[side === "below" ? 0 : 255].join(",")})` : "transparent";
  if (scale[side]) node.title = say(side === "below" ? "viewer.below" : "viewer.above");
  return node;
}
