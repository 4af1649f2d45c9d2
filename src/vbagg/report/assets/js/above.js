/** How many people live above a threshold: a slider and a box for it, over numbers that were worked out before. */
function startAbove() {
  const data = JSON.parse(byId("vbagg-above-data").textContent);
  const [range, box, answer] = ["range", "number", "sentence"].map((name) => byId(`vbagg-above-${name}`));

  /** The slider tells its text itself; after the box the sentence is read out. */
  const show = (place, by) => {
    const text = sentenceAbove(data, place);
    answer.setAttribute("aria-live", by === box ? "polite" : "off");
    answer.textContent = text;
    byId("vbagg-above-marker").style.left = `${(100 * place.at) / (data.thresholds.length - 1)}%`;
    range.setAttribute("aria-valuetext", text);
  };

  const write = (threshold) => {
    box.value = editedText(threshold);
    box.setAttribute("aria-invalid", "false");
  };

  range.addEventListener("input", () => {
    const at = Number(range.value);
    const threshold = data.thresholds[at];
    write(threshold);
    show({ at, threshold }, range);
  });
  box.addEventListener("input", () => {
    const typed = typedNumber(box.value);
    box.setAttribute("aria-invalid", String(box.value.trim() !== "" && !Number.isFinite(typed)));
    if (!Number.isFinite(typed)) return;
    const place = thresholdPlace(data.thresholds, typed);
    range.value = Math.round(place.at);
    show(place, box);
  });
  byId("vbagg-above-chosen").hidden = false;
  range.hidden = false;
  const at = Number(range.defaultValue);
  range.value = at;
  write(data.thresholds[at]);
  show({ at, threshold: data.thresholds[at] }, range);
}

/** Where a threshold is among those in ascending order: between two of them a fraction, beyond all the end. */
function thresholdPlace(thresholds, threshold) {
  const after = thresholds.findIndex((other) => other >= threshold);
  if (after < 0) return { at: thresholds.length - 1, threshold };
  if (after === 0) return { at: 0, threshold };
  const [low, high] = [thresholds[after - 1], thresholds[after]];
  return { at: after - (high - threshold) / (high - low), threshold };
}

/** The number at a place, between two of them in proportion. */
function numberAt(values, at) {
  const before = Math.floor(at);
  const part = at - before;
  return part === 0 ? values[before] : (1 - part) * values[before] + part * values[before + 1];
}

function sentenceAbove(data, { at, threshold }) {
  const [above, low, high] = [data.above, data.lower, data.upper].map((values) => numberAt(values, at));
  return say(`above.sentence_${data.counted}`, {
    above: amount(above),
    all: amount(data.all),
    range: amounts(low, high),
    threshold: givenText(threshold),
    units: data.units,
    response: data.response,
  });
}

/** A number of people with few digits; `amount` in above.py. */
function amount(value) {
  const near = nearTo(value);
  return near >= 1e6 ? millions(near, paddedText(near / 1e6, 3)) : countText(near);
}

function amounts(low, high) {
  if (Math.min(nearTo(low), nearTo(high)) < 1e6) return say("above.range", { low: amount(low), high: amount(high) });
  const [from, to] = [low, high].map((value) => paddedText(nearTo(value) / 1e6, 3));
  return millions(nearTo(high), say("above.range", { low: from, high: to }));
}

const millions = (value, number) => say("above.million", { n: value / 1e6, number });

const nearTo = (value) => (Math.abs(value) >= 1000 ? Number(value.toExponential(2)) : value);
