/** Words of the glossary: what they mean is shown beside them, by mouse, touch and keyboard. */
const glossary = JSON.parse(byId("vbagg-words").textContent);
const wordKeys = new Map(glossary.flatMap(([key, forms]) => forms.map((form) => [form.toLowerCase(), key])));
const wordPattern = patternOf([...wordKeys.keys()]);

function patternOf(forms) {
  const longest = forms.sort((a, b) => b.length - a.length).map((form) => form.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return forms.length ? new RegExp(`(?<![\\p{L}\\p{N}_])(?:${longest.join("|")})(?![\\p{L}\\p{N}_])`, "giu") : /(?!)/gu;
}

/** A text as nodes; each word is a link where it first stands. */
function explained(text) {
  const done = new Set();
  const nodes = [];
  let end = 0;
  for (const found of text.matchAll(wordPattern)) {
    const key = wordKeys.get(found[0].toLowerCase());
    if (done.has(key)) continue;
    done.add(key);
    nodes.push(text.slice(end, found.index), termOf(key, found[0]));
    end = found.index + found[0].length;
  }
  return [...nodes, text.slice(end)];
}

function termOf(key, text) {
  return element("a", { class: "term", href: `#word-${key}`, "aria-describedby": `word-${key}` }, text);
}

function connectWords() {
  const tip = element("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  document.body.append(tip);
  let shown = null;
  let leaving = 0;
  const show = (term) => {
    clearTimeout(leaving);
    shown = term;
    const meaning = byId(term.hash.slice(1));
    tip.replaceChildren(element("b", {}, meaning.previousElementSibling.textContent), meaning.textContent);
    tip.hidden = false;
    place();
  };
  const place = () => {
    const word = shown.getClientRects()[0];
    if (word.bottom < 0 || word.top > innerHeight) hide();
    else placeTip(tip, word);
  };
  const hide = () => {
    clearTimeout(leaving);
    shown = null;
    tip.hidden = true;
  };
  const hideSoon = () => (leaving = setTimeout(hide, 250));
  const term = ({ target }) => (target instanceof Element ? target.closest("a.term") : null);
  const over = (event) => {
    if (tip.contains(event.target)) clearTimeout(leaving);
    else if (term(event)) show(term(event));
  };
  document.addEventListener("pointerover", over);
  document.addEventListener("pointerout", (event) => {
    if (shown && event.pointerType === "mouse" && (term(event) || tip.contains(event.target))) hideSoon();
  });
  document.addEventListener("focusin", (event) => (term(event) ? show(term(event)) : hide()));
  document.addEventListener("click", (event) => {
    if (!term(event)) return tip.contains(event.target) || hide();
    // The enter key leads to the list.
    if (event.detail > 0) event.preventDefault();
    show(term(event));
  });
  addEventListener("keydown", ({ key }) => key === "Escape" && hide());
  addEventListener("scroll", () => shown && place(), { passive: true });
}

/** Below the word, or above it where there is no room; inside the window. */
function placeTip(tip, word) {
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, word.left), document.documentElement.clientWidth - width - 8);
  const isRoom = word.bottom + height + 14 < innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${isRoom ? word.bottom + 6 : Math.max(8, word.top - height - 6)}px`;
}
