const texts = JSON.parse(byId("vbagg-texts").textContent);
const language = document.documentElement.lang;

/** A text of the page's language, its places filled; `n` chooses among its forms. */
function say(name, values = {}) {
  const [section, key] = name.split(".");
  const found = texts[section][key];
  const template = typeof found === "string" ? found : found[isSingular(values.n) ? "one" : "other"];
  return template.replace(/\{(\w+)\}/g, (place, word) => shownValue(values[word]));
}

/** Whether a number goes with the form `one`; the rule is in language.py. */
function isSingular(n) {
  const { singular, singular_parts } = texts.marks;
  return singular.includes(singular_parts ? Math.floor(n) : n);
}

function shownValue(value) {
  return typeof value === "number" ? plainText(value, 0) : value;
}
