/** A row of a table of areas; its name is a button where there is a place on the map to go to. */
function areaRow({ areas, columns }, at, section) {
  const { name, cells, district, bounds } = areas[at];
  const goes = byId("vbagg-settings") !== null && (district !== null || bounds !== null);
  const title = goes
    ? element("button", { type: "button", class: "go title", tabindex: -1 }, name)
    : element("span", { class: "title" }, name);
  const row = element("tr", { class: goes ? "goes" : null }, element("th", { scope: "row", dir: "auto" }, title));
  cells.forEach(([text, , range], i) => {
    const below = range ? [element("small", {}, range)] : [];
    row.append(element("td", { class: columns[i + 1].numeric ? "number" : null }, text, ...below));
  });
  if (goes) {
    const facts = cells.map(([text, , range], i) => [columns[i + 1].title, range ? `${text} (${range})` : text]);
    const heading = [section.querySelector("h2").textContent, name];
    row.addEventListener("click", () => {
      if (getSelection().isCollapsed) announceVisit({ district, bounds, facts: [heading, ...facts], from: title });
    });
  }
  return row;
}

/** Ask the map to go to an area. */
function announceVisit(visit) {
  document.dispatchEvent(new CustomEvent("vbagg-visit", { detail: visit }));
}

/** One of the names can be reached by the tabulator, the others from there by arrow keys. */
function keepOneStop(body) {
  const names = [...body.querySelectorAll(".go")];
  const chosen = names.find((name) => name.hasAttribute("data-last")) ?? names[0];
  names.forEach((name) => (name.tabIndex = name === chosen ? 0 : -1));
}

function moveAmongRows(event, body) {
  const names = [...body.querySelectorAll(".go")];
  const at = names.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: names.length - 1 }[event.key];
  if (at < 0 || to === undefined || names[to] === undefined) return;
  event.preventDefault();
  names.forEach((name, i) => {
    name.tabIndex = i === to ? 0 : -1;
    name.toggleAttribute("data-last", i === to);
  });
  names[to].focus();
}
