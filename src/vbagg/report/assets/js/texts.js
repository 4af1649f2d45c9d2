const texts = JSON.parse(byId("vbagg-texts").textContent);
const language = document.documentElement.lang;
const forms = new Intl.PluralRules(language);

/** A text of the page's language, its places filled; `n` chooses among its forms. */
function say(name, values = {}) {
  const [section, key] = name.split(".");
  const found = texts[section][key];
  const template = typeof found === "string" ? found : found[forms.select(values.n) === "one" ? "one" : "other"];
  return template.replace(/\{(\w+)\}/g, (place, word) => shownValue(values[word]));
}

function shownValue(value) {
  return typeof value === "number" ? value.toLocaleString(language) : value;
}
