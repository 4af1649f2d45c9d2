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

/** Counts, as `numerals.count` writes them. */
function countText(value) {
  return Math.abs(value) >= 10 || Number.isInteger(value) ? signed(value, plainText(Math.abs(value), 0)) : significantText(value, 2);
}

/** A number that somebody chose, as `numerals.given` writes it. */
function givenText(value) {
  const text = significantText(value, 10);
  return Math.abs(value) < texts.marks.given_from ? text.replaceAll(texts.marks.thousands, "") : text;
}

/** At least so many digits where they say something, as `numerals.significant` writes them. */
function significantText(value, digits) {
  return stripped(paddedText(value, digits));
}

/** The same with zeros at the end, as `numerals.padded` writes them. */
function paddedText(value, digits) {
  if (value === 0) return "0";
  const [mantissa, exponent] = Math.abs(value).toExponential(digits - 1).split("e");
  const power = Number(exponent);
  if (power >= -4 && power < 15) return signed(value, plainText(Math.abs(value), Math.max(0, digits - 1 - power)));
  const raised = `10${superscript(power)}`;
  return signed(value, Number(mantissa) === 1 ? raised : `${stripped(plainText(Number(mantissa), digits - 1))} \u00d7 ${raised}`);
}

function signed(value, text) {
  return value < 0 && /[1-9]/.test(text) ? MINUS + text : text;
}

/** Without zeros at the end of decimals. */
function stripped(text) {
  const mark = texts.marks.decimal;
  if (!text.includes(mark) || text.includes("\u00d7")) return text;
  const bare = text.replace(/0+$/, "");
  return bare.endsWith(mark) ? bare.slice(0, -1) : bare;
}

/** A number to go on typing at: all its digits, and no marks between thousands. */
function editedText(value) {
  return String(value).replace("-", MINUS).replace(".", texts.marks.decimal);
}

/** What somebody typed, with a comma or a point before decimals; NaN if it is no number. */
function typedNumber(text) {
  const bare = text.replace(/\s/g, "").replace(MINUS, "-");
  const grouped = texts.marks.thousands === "," && /^-?[1-9]\d{0,2}(,\d{3})+(\.\d*)?$/.test(bare);
  const plain = bare.replaceAll(",", grouped ? "" : ".");
  return /^-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
}
