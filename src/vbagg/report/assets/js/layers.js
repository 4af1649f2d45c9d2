/** Layers of the settings, each with a way to its codes and colours, worked out when first asked for. */
function makeLayers(settings) {
  const palettes = Object.fromEntries(
    Object.entries(settings.palettes).map(([name, digits]) => [name, paletteFromHex(digits)]),
  );
  return settings.layers.map((described, position) => ({
    ...described,
    palette: described.scale ? palettes[described.scale.colours] : null,
    codes: once(async () =>
      codesFromErrors(await inflate(`vbagg-layer-${position}`), settings.height, settings.width),
    ),
  }));
}

function once(work) {
  let result = null;
  return () => (result ??= work());
}

/** 256 colours as red, green, blue. */
function paletteFromHex(digits) {
  return Array.from({ length: 256 }, (_, i) =>
    [0, 2, 4].map((offset) => parseInt(digits.slice(6 * i + offset, 6 * i + offset + 2), 16)),
  );
}

/** Place of a value between the first colour (0) and the last (1). */
function placeOf(value, { low, high, log }) {
  if (!log) return (value - low) / (high - low);
  return value > 0 ? Math.log(value / low) / Math.log(high / low) : -Infinity;
}

/** Colour of every code, as the bytes red, green, blue, opaque in one number; missing values are transparent. */
function colourOfCodes({ coding, scale, palette }) {
  const bytes = new Uint8Array(4 * 65536);
  if (scale === null) return new Uint32Array(bytes.buffer);
  for (let code = 1; code < 65536; code++) {
    const place = placeOf(valueOf(code, coding), scale);
    const colour = palette[Math.max(0, Math.min(255, Math.floor(256 * place)))];
    bytes.set([...colour, 255], 4 * code);
  }
  return new Uint32Array(bytes.buffer);
}

async function paint(canvas, layer) {
  const codes = await layer.codes();
  const colours = colourOfCodes(layer);
  const image = new ImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < codes.length; i++) pixels[i] = colours[codes[i]];
  return () => canvas.getContext("2d").putImageData(image, 0, 0);
}

/** What to say about a layer at a pixel: value and interval as text. */
async function reading(layer, layers, index) {
  const [value, lower, upper] = await Promise.all(
    [layer, named(layers, layer.lower), named(layers, layer.upper)].map((each) => textAt(each, index)),
  );
  return { layer, value, interval: lower && upper ? say("numbers.range", { low: lower, high: upper }) : null };
}

function named(layers, name) {
  return layers.find((layer) => layer.name === name) ?? null;
}

async function textAt(layer, index) {
  if (layer === null || index === null) return null;
  const code = (await layer.codes())[index];
  return code === MISSING ? null : textOf(code, layer.coding);
}
