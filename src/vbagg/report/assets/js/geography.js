/** Longitude and latitude on a plane, with the right shape at the middle of the map. */
function planeOf({ south, north }) {
  const middle = ((south + north) / 2) * (Math.PI / 180);
  const shrink = Math.max(0.2, Math.cos(middle));
  const transformation = L.transformation(shrink / 180, 1, -1 / 180, 0.5);
  return L.extend({}, L.CRS.EPSG4326, { transformation, wrapLng: undefined });
}

/** Whether the reader asked for no movement. */
const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

function boxOf({ west, south, east, north }) {
  return L.latLngBounds([south, west], [north, east]);
}

/** Position of the pixel at a point in an array stored by rows; null outside. */
function pixelAt(point, { bounds, height, width }) {
  const row = Math.floor(((bounds.north - point.lat) / (bounds.north - bounds.south)) * height);
  const column = Math.floor(((point.lng - bounds.west) / (bounds.east - bounds.west)) * width);
  const inside = row >= 0 && row < height && column >= 0 && column < width;
  return inside ? row * width + column : null;
}

/** Zoom at which a pixel is so many points high. */
function zoomForPixels(points, { bounds, height }) {
  const degrees = (bounds.north - bounds.south) / height;
  return Math.log2((points * 180) / (256 * degrees));
}

function coordinatesText({ lat, lng }) {
  return `${latitudeText(lat, 4)}, ${longitudeText(lng, 4)}`;
}

const latitudeText = (degrees, decimals) => angleText(degrees, say("viewer.north"), say("viewer.south"), decimals);

function longitudeText(degrees, decimals) {
  const within = ((((degrees + 180) % 360) + 360) % 360) - 180;
  return angleText(within, say("viewer.east"), say("viewer.west"), decimals);
}

function angleText(degrees, positive, negative, decimals) {
  const size = Math.abs(degrees).toFixed(decimals);
  const text = size.replace(".", texts.marks.decimal);
  const side = Number(size) === 0 ? "" : degrees > 0 ? ` ${positive}` : ` ${negative}`;
  return `${text}\u00b0${side}`;
}
