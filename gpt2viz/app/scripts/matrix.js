// Painting matrices: cells' colours, canvases and their texts, the tip beside a cell.

export const FONT = 12

/** "#rrggbb" as red, green and blue. */
export const rgb = (hex) => [1, 3, 5].map((n) => parseInt(hex.slice(n, n + 2), 16))

/** Black or white, whichever contrasts more with a colour (WCAG 2.2, relative luminance): at least
 * 4.5:1, which softer inks miss on some colours. */
export function ink(color) {
  const [r, g, b] = color.map((c) =>
    c <= 10 ? c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4)
  return .2126 * r + .7152 * g + .0722 * b > .179 ? "#000000" : "#ffffff"
}

/** The state of a cell: 0 a number on the scale, 1 masked, 2 NaN, 3 infinite. */
export const cellState = (value, masked) =>
  Number.isNaN(value) ? 2 : masked ? 1 : Number.isFinite(value) ? 0 : 3

/** The colour of a scale at a share from 0 to 1, between its two nearest stops. */
export function shade(scale, share) {
  const n = Math.max(1, scale.findIndex(([stop]) => share <= stop))
  const [[from, first], [to, second]] = [scale[n - 1], scale[n]]
  const part = (share - from) / (to - from), a = rgb(first), b = rgb(second)
  return a.map((x, i) => Math.round(x + part * (b[i] - x)))
}

// Colours as opaque pixels, each four bytes in one number: a click repaints half a million.
const pixelsOf = (colors) =>
  new Uint32Array(Uint8Array.from(colors.flatMap((color) => [...color, 255])).buffer)

/** The colours of a cell by its code: an index into `shades`, or after them its state. The
 * `special` states have two alternating colours. */
export function paletteOf(shades, special) {
  const turns = [0, 1].map((turn) => [...shades, ...special.map((pair) => rgb(pair[turn]))])
  return { count: shades.length, inks: turns[0].map(ink), pixels: turns.map(pixelsOf) }
}

/** The code of a cell with a share from 0 to 1 of its scale, or with another state. */
export const codeOf = ({ count }, share, state) =>
  state ? count - 1 + state : Math.round((count - 1) * Math.min(1, Math.max(0, share)))

/** Cells as the bytes of an image with a pixel per cell. Alternating colours form a chessboard of
 * squares of `square` cells. */
export function pixels(codes, columns, palette, square = 1) {
  const result = new Uint32Array(codes.length), turn = (n) => Math.floor(n / square)
  for (let n = 0, row = 0; n < codes.length; row++)
    for (let column = 0; column < columns; column++, n++)
      result[n] = palette.pixels[turn(row) + turn(column) & 1][codes[n]]
  return new Uint8ClampedArray(result.buffer)
}

/** Such bytes as an image that can be drawn. */
export function imageOf(bytes, columns) {
  const canvas = document.createElement("canvas")
  canvas.width = columns
  canvas.height = bytes.length / 4 / columns
  canvas.getContext("2d").putImageData(new ImageData(bytes, columns, canvas.height), 0, 0)
  return canvas
}

/** The pen, in CSS pixels, of a canvas that is resized and cleared. */
export function penOf(canvas, width, height, { color, fontFamily }) {
  const ratio = devicePixelRatio * zoomOf(canvas)
  canvas.width = Math.round(width * ratio)
  canvas.height = Math.round(height * ratio)
  canvas.style.height = `${height}px`
  const pen = canvas.getContext("2d")
  pen.scale(ratio, ratio)
  pen.font = `${FONT}px ${fontFamily}`
  pen.fillStyle = pen.strokeStyle = color
  pen.imageSmoothingEnabled = false
  return pen
}

/** Draw a line through points. */
export function line(pen, ...points) {
  pen.beginPath()
  for (const [n, [x, y]] of points.entries()) pen[n ? "lineTo" : "moveTo"](x, y)
  pen.stroke()
}

/** Draw a text that reads upwards. */
export function upwards(pen, text, x, y, align) {
  pen.save()
  pen.translate(x, y)
  pen.rotate(-Math.PI / 2)
  pen.textAlign = align
  pen.textBaseline = "middle"
  pen.fillText(text, 0, 0)
  pen.restore()
}

/** A word, shortened at its end if it is wider than `room`. */
export function cut(word, room, measure) {
  if (measure(word) <= room) return word
  const start = [...word]
  while (start.length && (start.at(-1) === "…" || measure(`${start.join("")}…`) > room)) start.pop()
  return start.length ? `${start.join("")}…` : ""
}

/** Show a tip beside a box of its view, but not below the view. */
export function showTip(tip, view, { x, y, w }) {
  tip.style.display = "block"
  const fits = x + w + 8 + tip.offsetWidth <= view.clientWidth
  tip.style.left = `${fits ? x + w + 8 : Math.max(0, x - tip.offsetWidth - 8)}px`
  tip.style.top = `${Math.min(y, Math.max(0, view.clientHeight - tip.offsetHeight))}px`
}

/** The zoom of the page for presenting: the ratio of an element's pixels to the window's. */
export const zoomOf = (element) => element?.currentCSSZoom ?? 1

/** Where an event is in its element, in the element's own pixels. */
export const eventPoint = ({ offsetX, offsetY, target }) =>
  [offsetX, offsetY].map((length) => length / zoomOf(target))

/** An index clamped to a list of `count` items. */
export const within = (n, count) => Math.min(Math.max(n, 0), count - 1)
