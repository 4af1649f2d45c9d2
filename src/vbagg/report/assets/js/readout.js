/** Values, interval, district facts and coordinates of one point. */
function showReadout({ readings, districts, point }) {
  const cards = readings.map((each) => valueCard(each));
  const facts = districts.slice(0, 3).map(({ facts }) => factList(facts));
  const where = element("p", { class: "where" }, coordinatesText(point));
  byId("vbagg-readout").replaceChildren(element("div", { class: "values" }, ...cards), ...facts, where);
}

/** What is known of an area that the reader came to from a table, and the way back. */
function showVisited({ facts }, from) {
  const back = element("button", { type: "button", class: "back" }, say("visit.back"));
  back.addEventListener("click", () => {
    from.scrollIntoView({ block: "center", behavior: isStill() ? "auto" : "smooth" });
    from.focus({ preventScroll: true });
  });
  byId("vbagg-readout").replaceChildren(factList(facts), back);
}

function showHint() {
  byId("vbagg-readout").replaceChildren(element("p", { class: "hint" }, say("viewer.hint")));
}

function valueCard({ layer, value, interval }) {
  const units = value !== null && layer.units ? [element("span", { class: "units" }, layer.units)] : [];
  const card = element(
    "div",
    { class: "value", "data-layer": layer.name },
    element("p", { class: "name" }, layer.label),
    element("p", { class: "number" }, element("b", {}, value ?? say("viewer.no_value")), " ", ...units),
  );
  if (value !== null && interval) card.append(element("p", { class: "interval" }, say("viewer.interval", { interval: layer.interval, range: interval })));
  return card;
}

function factList(facts) {
  const [heading, ...rest] = facts;
  const list = element("dl", {});
  for (const [label, text] of rest) list.append(element("dt", {}, label), element("dd", {}, text));
  const name = heading ? [element("h3", {}, element("small", {}, heading[0]), " ", heading[1])] : [];
  return element("div", { class: "district" }, ...name, list);
}

function labelTexts({ layer, value, interval }) {
  if (value === null) return [say("viewer.no_value")];
  return interval ? [value, say("viewer.beside", { interval: layer.interval, range: interval })] : [value];
}
