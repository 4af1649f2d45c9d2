/** Bytes of a block of data: base64, then deflate. */
async function inflate(id) {
  const text = atob(byId(id).textContent);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** What a block of packed JSON holds; null if the page has no such block. */
async function unpacked(id) {
  return byId(id) ? JSON.parse(new TextDecoder().decode(await inflate(id))) : null;
}

/** Codes of pixels: low bytes, then high bytes, of the errors of the plane through three neighbours. */
function codesFromErrors(bytes, height, width) {
  const count = height * width;
  const codes = new Uint16Array(count);
  for (let row = 0, i = 0; row < height; row++) {
    let left = 0;
    let upperLeft = 0;
    for (let column = 0; column < width; column++, i++) {
      const folded = bytes[i] | (bytes[count + i] << 8);
      const error = (folded >>> 1) ^ -(folded & 1);
      const upper = row ? codes[i - width] : 0;
      left = (error + left + upper - upperLeft) & 65535;
      upperLeft = upper;
      codes[i] = left;
    }
  }
  return codes;
}
