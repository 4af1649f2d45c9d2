/** Rows that are drawn at once; more follow as the reader comes to the end of these. */
const PORTION = 100;

/** Tables of areas: sorted, searched, downloaded, and a way to the map. */
async function startAreas() {
  for (const section of document.querySelectorAll("section.areas")) {
    makeAreas(section, JSON.parse(new TextDecoder().decode(await inflate(section.dataset.areas))));
  }
  document.documentElement.dataset.areas = "ready";
}

function makeAreas(section, data) {
  const part = (selector) => section.querySelector(selector);
  const body = part("tbody");
  const presets = [...section.querySelectorAll(".orders button")];
  const heads = [...section.querySelectorAll("thead th")];
  const letters = data.areas.map(({ name }) => plainLetters(name));
  const state = { order: data.orders[0], sorted: [], chosen: [], wanted: "", all: false, printing: false };
  const makeRow = remembered((at) => areaRow(data, at, section));

  const sort = (order) => {
    state.order = order;
    state.sorted = sortedAreas(data.areas, order);
    heads.forEach((head, column) => {
      if (column === order.column) head.setAttribute("aria-sort", order.falling ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    presets.forEach((button, i) => button.setAttribute("aria-pressed", same(data.orders[i], order)));
    show();
  };

  /** Those with the letters that are wanted; without any the first, or all if the reader asked for them. */
  const shown = () => {
    if (state.printing) return sortedAreas(data.areas, data.orders[0]).slice(0, data.printed);
    if (state.wanted) return state.sorted.filter((at) => letters[at].includes(state.wanted));
    return state.all ? state.sorted : state.sorted.slice(0, data.few);
  };

  const drawMore = () => {
    const from = body.children.length;
    const drawn = state.chosen.slice(from, from + PORTION).map(makeRow);
    drawn.forEach((row, i) => row.setAttribute("aria-rowindex", from + i + 2));
    body.append(...drawn);
  };

  const show = () => {
    const chosen = (state.chosen = shown());
    body.replaceChildren();
    drawMore();
    keepOneStop(body);
    part("table").setAttribute("aria-rowcount", chosen.length + 1);
    part(".table").classList.toggle("tall", chosen.length > 2 * data.few && !state.printing);
    part(".table").scrollTop = 0;
    part(".found").textContent = state.wanted ? say("table.found", { n: chosen.length, all: data.areas.length }) : "";
    part(".none").hidden = chosen.length > 0;
    part(".more").hidden = state.wanted !== "" || data.areas.length <= data.few;
    const n = state.all ? data.few : data.areas.length;
    part(".more button").textContent = say(state.all ? "table.show_few" : "table.show_all", { n });
    part(".more button").setAttribute("aria-expanded", state.all);
  };

  presets.forEach((button, i) => button.addEventListener("click", () => sort(data.orders[i])));
  heads.forEach((head, column) => {
    const button = element("button", { type: "button", class: "by" }, head.textContent);
    button.addEventListener("click", () => sort(nextOrder(state.order, column, data.columns[column])));
    head.replaceChildren(button);
  });
  part(".search input").addEventListener("input", ({ target }) => {
    state.wanted = plainLetters(target.value.trim());
    show();
  });
  part(".more button").addEventListener("click", () => {
    state.all = !state.all;
    show();
  });
  part(".download").addEventListener("click", () => {
    const records = state.sorted.map((at) => data.areas[at].record);
    download(data.file, csvText([data.headers, ...records]));
  });
  body.addEventListener("keydown", (event) => {
    if (event.key === "End") while (body.children.length < state.chosen.length) drawMore();
    moveAmongRows(event, body);
  });
  part(".table").addEventListener("scroll", ({ target }) => {
    if (target.scrollTop + 2 * target.clientHeight > target.scrollHeight) drawMore();
  });
  for (const event of ["beforeprint", "afterprint"]) {
    addEventListener(event, () => {
      state.printing = event === "beforeprint";
      show();
    });
  }
  part(".tools").hidden = false;
  sort(data.orders[0]);
}

const same = (one, other) => one.column === other.column && one.falling === other.falling;

/** The order of a column that was pressed: the other way round if rows are sorted by it already. */
function nextOrder(order, column, { falling }) {
  return { column, falling: order.column === column ? !order.falling : falling };
}

/** Positions of the areas in order; those without a value come last either way. */
function sortedAreas(areas, { column, falling }) {
  const value = ({ name, cells }) => (column === 0 ? name : cells[column - 1][1]);
  const compared = new Intl.Collator(language, { numeric: true }).compare;
  const compare = (a, b) => (typeof a === "string" ? compared(a, b) : a - b);
  const values = areas.map(value);
  const positions = areas.map((area, at) => at);
  return positions.sort((a, b) => {
    if (values[a] === null || values[b] === null) return (values[a] === null) - (values[b] === null);
    return falling ? compare(values[b], values[a]) : compare(values[a], values[b]);
  });
}

/** Small letters without accents. */
function plainLetters(text) {
  return text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
}
