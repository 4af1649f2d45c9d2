const MISSING = 0;
const MINUS = "\u2212";

/** A code as mantissa * 10^power; the rule is in encoding.py. */
function decimalOf(code, { digits, lowest, zero }) {
  const base = 10 ** (digits - 1);
  const number = Math.abs(code - zero);
  const decade = number < base ? 0 : Math.floor((number - base) / (9 * base));
  return { sign: Math.sign(code - zero), mantissa: number - decade * 9 * base, power: lowest + decade - digits + 1 };
}

function magnitudeOf({ mantissa, power }) {
  return power < 0 ? mantissa / 10 ** -power : mantissa * 10 ** power;
}

function valueOf(code, coding) {
  const decimal = decimalOf(code, coding);
  return decimal.sign * magnitudeOf(decimal);
}

/** The value with all its stored digits. */
function textOf(code, coding) {
  const decimal = decimalOf(code, coding);
  if (decimal.sign === 0) return "0";
  const magnitude = magnitudeOf(decimal);
  const plain = magnitude >= 1e-4 && magnitude < 1e15;
  const text = plain ? plainText(magnitude, Math.max(0, -decimal.power)) : scientificText(decimal);
  return (decimal.sign < 0 ? MINUS : "") + text;
}

/** Digits with the marks of the page's language; the rule is in language.py. */
function plainText(magnitude, decimals) {
  const { decimal, thousands, grouped_from } = texts.marks;
  const text = magnitude.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const [whole, rest] = text.split(".");
  const digits = whole.replaceAll(",", "");
  const grouped = digits.length < String(grouped_from).length ? digits : whole.replaceAll(",", thousands);
  return rest ? grouped + decimal + rest : grouped;
}

function scientificText({ mantissa, power }) {
  const digits = String(mantissa);
  const fraction = digits.length > 1 ? texts.marks.decimal + digits.slice(1) : "";
  return `${digits[0]}${fraction} \u00d7 10${superscript(power + digits.length - 1)}`;
}

function superscript(exponent) {
  const raised = { "-": "\u207b", 0: "\u2070", 1: "\u00b9", 2: "\u00b2", 3: "\u00b3", 4: "\u2074" };
  const character = (c) => raised[c] ?? String.fromCharCode(0x2070 + Number(c));
  return [...String(exponent)].map(character).join("");
}
