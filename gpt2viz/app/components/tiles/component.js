// Small matrices: all cells on one canvas, numbers under the pointer and by keys, clicks, and parts
// that are dragged out.

const GAP = 10, LINE = 13, FONT = 12, BAR = 64, LARGEST = 110

// A message: a JSON header, the numbers, and one bit a cell for what is masked. `packed` in
// __init__.py writes it.
export function read(bytes) {
  const { buffer } = bytes.slice()
  const length = new DataView(buffer).getUint32(0, true)
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)))
  const count = head.names.length * head.rows.length * head.columns.length
  const values = new Float32Array(buffer, 4 + length, count)
  const bits = new Uint8Array(buffer, 4 + length + 4 * count)
  return { ...head, values, masked: (n) => bits[n >> 3] >> (n & 7) & 1 }
}

const rgb = (hex) => [1, 3, 5].map((n) => parseInt(hex.slice(n, n + 2), 16))

// 0 is a number on the scale, 1 masked, 2 NaN, 3 infinite.
export function kind({ values, masked }, n) {
  if (Number.isNaN(values[n])) return 2
  return masked(n) ? 1 : Number.isFinite(values[n]) ? 0 : 3
}

// The colour of a number, between the two stops of the scale round it: red, green and blue.
export function shade({ scale, low, high }, value) {
  const share = Math.min(1, Math.max(0, (value - low) / (high - low)))
  const n = Math.max(1, scale.findIndex(([stop]) => share <= stop))
  const [[from, first], [to, second]] = [scale[n - 1], scale[n]]
  const part = (share - from) / (to - from), a = rgb(first), b = rgb(second)
  return a.map((x, i) => Math.round(x + part * (b[i] - x)))
}

// Every panel as the bytes of a picture of one pixel a cell: red, green, blue and opaque.
export function pixels(p) {
  const [rows, columns] = [p.rows.length, p.columns.length], size = rows * columns
  const shades = Array.from({ length: 1024 }, (_, n) =>
    shade(p, p.low + (p.high - p.low) * n / 1023))
  const special = p.special.map(({ color, other }) => [rgb(color), rgb(other)])
  const square = Math.max(1, Math.floor(Math.max(rows, columns) / p.squares))
  return p.names.map((_, panel) => {
    const bytes = new Uint8ClampedArray(4 * size)
    for (let n = 0; n < size; n++) {
      const cell = panel * size + n, what = kind(p, cell)
      const share = (p.values[cell] - p.low) / (p.high - p.low)
      const turn = Math.floor(n / columns / square) + Math.floor(n % columns / square) & 1
      bytes.set(what ? special[what - 1][turn]
        : shades[Math.round(1023 * Math.min(1, Math.max(0, share)))], 4 * n)
      bytes[4 * n + 3] = 255
    }
    return bytes
  })
}

function images(p) {
  const [rows, columns] = [p.rows.length, p.columns.length]
  return pixels(p).map((bytes) => {
    const canvas = document.createElement("canvas")
    canvas.width = columns
    canvas.height = rows
    canvas.getContext("2d").putImageData(new ImageData(bytes, columns, rows), 0, 0)
    return canvas
  })
}

// Where everything stands, in CSS pixels; `measure` says how wide a text is.
export function plan(p, width, measure) {
  const nRows = p.rows.length, nColumns = p.columns.length
  const longest = (names) => Math.max(...names.map(measure))
  const left = longest(p.rowEnds) + LINE + 12
  const across = Math.min(p.across, p.names.length), down = Math.ceil(p.names.length / across)
  const pitch = (width - left - (p.bar ? BAR : 2) + GAP) / across
  const cell = Math.min((pitch - GAP) / nColumns, p.tallest / nRows, LARGEST)
  const names = longest(p.columnEnds), upright = names > cell - 4
  const below = upright ? names : LINE
  const signs = p.special.some(({ there }) => there) ? LINE + 9 : 0
  const [w, h] = [cell * nColumns, cell * nRows]
  const title = 20 + (p.part.length && LINE)
  const boxes = p.names.map((_, n) => ({
    x: left + (n % across) * pitch,
    y: signs + title + Math.floor(n / across) * (h + title + 4),
    first: n % across === 0, last: n + across >= p.names.length,
  }))
  const height = signs + down * (h + title + 4) + below + LINE + 12
  const part = p.part.find((name) => measure(name) < pitch - GAP) ?? p.part.at(-1)
  return { boxes, cell, w, h, upright, below, height, part }
}

function draw(view) {
  const { p, canvas } = view, width = view.clientWidth
  if (!width) return
  const style = getComputedStyle(view), font = `${FONT}px ${style.fontFamily}`
  const pen = canvas.getContext("2d")
  pen.font = font
  const look = view.look = plan(p, width, (name) => pen.measureText(name).width)
  canvas.width = Math.round(width * devicePixelRatio)
  canvas.height = Math.round(look.height * devicePixelRatio)
  canvas.style.height = `${look.height}px`
  pen.scale(devicePixelRatio, devicePixelRatio)
  pen.font = font
  pen.fillStyle = style.color
  pen.imageSmoothingEnabled = false
  legend(pen, p, width)
  if (p.bar) colorBar(pen, p, look)
  look.boxes.forEach((box, n) => {
    const { cell, w, h } = look
    pen.drawImage(view.images[n], box.x, box.y, w, h)
    if (p.columns.length <= p.numbers) numbers(pen, p, n, look)
    pen.lineWidth = 1
    pen.fillStyle = style.color
    pen.strokeStyle = p.line
    pen.strokeRect(box.x - .5, box.y - .5, w + 1, h + 1)
    pen.textAlign = "center"
    pen.textBaseline = "alphabetic"
    pen.fillText(p.titles[n], box.x + w / 2, box.y - 6 - (look.part ? LINE : 0))
    if (look.part) pen.fillText(look.part, box.x + w / 2, box.y - 5)
    ends(pen, p, look, box)
    if (p.row >= 0) {
      pen.strokeStyle = p.frame
      pen.lineWidth = p.rows.length <= 20 ? 2.5 : 1
      pen.strokeRect(box.x, box.y + p.row * cell, w, cell)
    }
  })
}

// Dark or light, as can be read on a colour (WCAG 2.2, relative luminance).
export function ink(color) {
  const [r, g, b] = color.map((c) => ((c / 255 + .055) / 1.055) ** 2.4)
  return .2126 * r + .7152 * g + .0722 * b > .179 ? "#1c2030" : "#ffffff"
}

function numbers(pen, p, panel, { boxes, cell }) {
  const { x, y } = boxes[panel]
  pen.textAlign = "center"
  pen.textBaseline = "middle"
  pen.strokeStyle = p.line
  const [rows, columns] = [p.rows.length, p.columns.length]
  for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) {
    const n = (panel * rows + row) * columns + column, what = kind(p, n)
    const color = what ? rgb(p.special[what - 1].color) : shade(p, p.values[n])
    const [left, above] = [x + column * cell, y + row * cell]
    pen.fillStyle = ink(color)
    pen.fillText(what ? p.special[what - 1].sign : p.values[n].toFixed(p.decimals),
      left + cell / 2, above + cell / 2)
    pen.strokeRect(left, above, cell, cell)
  }
}

function colorBar(pen, p, { boxes, w, h }) {
  const x = boxes[0].x + w + 14, y = boxes[0].y, tall = Math.min(200, h)
  const shades = pen.createLinearGradient(0, y + tall, 0, y)
  for (const [stop, color] of p.scale) shades.addColorStop(stop, color)
  const text = pen.fillStyle
  pen.fillStyle = shades
  pen.fillRect(x, y, 10, tall)
  pen.fillStyle = text
  pen.strokeStyle = p.line
  pen.strokeRect(x, y, 10, tall)
  pen.textAlign = "left"
  pen.textBaseline = "middle"
  for (const share of [0, .5, 1]) {
    const value = Number((p.low + share * (p.high - p.low)).toPrecision(3))
    pen.fillText(String(value), x + 14, y + tall - share * (tall - 10) - 5)
  }
  turned(pen, p.bar, x + 44, y + tall / 2, "center")
}

function legend(pen, p, width) {
  pen.textAlign = "right"
  pen.textBaseline = "middle"
  let right = width - 2
  for (const { name, color } of p.special.filter(({ there }) => there)) {
    pen.fillText(name, right, LINE / 2 + 1)
    right -= pen.measureText(name).width + 17
    const text = pen.fillStyle
    pen.fillStyle = color
    pen.fillRect(right, 1, 12, 12)
    pen.fillStyle = text
    right -= 16
  }
}

// Every how manieth name there is room for: one takes `space` pixels.
export const every = (cell, space) =>
  [1, 2, 5, 10, 20, 50, 100].find((n) => n * cell >= space) ?? 200

// The names on the left of a row of panels and below the last one.
function ends(pen, p, { cell, w, h, upright, below }, box) {
  if (box.first) {
    pen.textAlign = "right"
    pen.textBaseline = "middle"
    for (let n = 0; n < p.rows.length; n += every(cell, LINE))
      pen.fillText(p.rowEnds[n], box.x - 5, box.y + (n + .5) * cell)
    turned(pen, p.down, LINE / 2, box.y + h / 2, "center")
  }
  if (!box.last) return
  const by = every(cell, upright ? LINE : 0)
  for (let n = 0; n < p.columns.length; n += by) {
    const x = box.x + (n + .5) * cell
    if (upright) turned(pen, p.columnEnds[n], x, box.y + h + 5, "right")
    else {
      pen.textAlign = "center"
      pen.textBaseline = "top"
      pen.fillText(p.columnEnds[n], x, box.y + h + 5)
    }
  }
  pen.textAlign = "center"
  pen.textBaseline = "top"
  pen.fillText(p.wide, box.x + w / 2, box.y + h + below + 8)
}

function turned(pen, text, x, y, align) {
  pen.save()
  pen.translate(x, y)
  pen.rotate(-Math.PI / 2)
  pen.textAlign = align
  pen.textBaseline = "middle"
  pen.fillText(text, 0, 0)
  pen.restore()
}

// A pointer that moved less, in pixels, between down and up has clicked: Plotly's own limit.
const CLICK = 8

// The panel and the place in it, in cells, where the middle of the first cell is 0.
export function place({ boxes, cell, w, h }, x, y) {
  const panel = boxes.findIndex((box) =>
    x >= box.x && x < box.x + w && y >= box.y && y < box.y + h)
  if (panel < 0) return null
  return {
    panel,
    row: (y - boxes[panel].y) / cell - .5,
    column: (x - boxes[panel].x) / cell - .5,
  }
}

// The cell of such a place.
export const under = (at) => at &&
  { panel: at.panel, row: Math.round(at.row), column: Math.round(at.column) }

function cover(view, element, panel, top, bottom, first, last) {
  const { boxes, cell } = view.look
  Object.assign(element.style, {
    display: "block", left: `${boxes[panel].x + first * cell}px`,
    top: `${boxes[panel].y + top * cell}px`,
    width: `${(last - first) * cell}px`, height: `${(bottom - top) * cell}px`,
  })
}

// What stands in a cell, in words.
export function said(p, { panel, row, column }) {
  const n = (panel * p.rows.length + row) * p.columns.length + column, what = kind(p, n)
  return what ? p.special[what - 1].text
    : `${p.quantity} ${String(Number(p.values[n].toPrecision(6)))}`
}

// A cell under the pointer or reached by keys, in text nodes only: tokens are anybody's text.
function tell(view, at) {
  const { p, tip, frame } = view
  view.at = at
  tip.style.display = frame.style.display = "none"
  if (!at) return
  const bold = (text) => Object.assign(document.createElement("b"), { textContent: text })
  tip.replaceChildren(`${p.titles[at.panel]}\n${p.down} `, bold(p.rows[at.row]),
    `\n${p.wide} `, bold(p.columns[at.column]), `\n${said(p, at)}`)
  cover(view, frame, at.panel, at.row, at.row + 1, at.column, at.column + 1)
  tip.style.display = "block"
  const x = frame.offsetLeft + frame.offsetWidth + 8, y = frame.offsetTop + frame.offsetHeight + 8
  const fits = x + tip.offsetWidth <= view.clientWidth
  tip.style.left = `${fits ? x : Math.max(0, frame.offsetLeft - tip.offsetWidth - 8)}px`
  tip.style.top = `${Math.min(y, Math.max(0, view.clientHeight - tip.offsetHeight))}px`
}

const MOVES = {
  ArrowUp: ["row", -1], ArrowDown: ["row", 1], ArrowLeft: ["column", -1], ArrowRight: ["column", 1],
  PageUp: ["panel", -1], PageDown: ["panel", 1],
}

// The cell that a key leads to from the one it is pressed at, or from none.
export function step(p, at, key) {
  if (!at) return { panel: 0, row: 0, column: 0 }
  const [what, by] = MOVES[key]
  const { length } = { row: p.rows, column: p.columns, panel: p.names }[what]
  return { ...at, [what]: Math.min(Math.max(at[what] + by, 0), length - 1) }
}

function walk(view, event) {
  if (event.key === "Escape") tell(view, null)
  else if ((event.key === "Enter" || event.key === " ") && view.at) choose(view, view.at)
  else if (MOVES[event.key]) tell(view, step(view.p, view.at, event.key))
  else return
  event.preventDefault()
}

function choose(view, { panel, row, column }) {
  view.send("cell", { panel: view.p.names[panel], row, column })
}

// The first and the last of the cells whose middle was dragged over, from either side.
export function dragged(a, b) {
  return [Math.ceil(Math.min(a, b)), Math.floor(Math.max(a, b))]
}

function listen(view) {
  const { canvas, band } = view
  let from = null, start = null
  canvas.onpointerdown = (event) => {
    start = [event.offsetX, event.offsetY]
    from = place(view.look, ...start)
    if (from) canvas.setPointerCapture(event.pointerId)
  }
  const end = ({ offsetX, offsetY }) => {
    if (!from || Math.hypot(offsetX - start[0], offsetY - start[1]) < CLICK) return null
    const { w, h, boxes } = view.look, box = boxes[from.panel]
    const inside = (value, low, size) => Math.min(Math.max(value, low), low + size - .01)
    return place(view.look, inside(offsetX, box.x, w), inside(offsetY, box.y, h))
  }
  canvas.onpointermove = (event) => {
    const to = end(event)
    if (!to) return tell(view, under(place(view.look, event.offsetX, event.offsetY)))
    tell(view, null)
    const [top, bottom] = [from.row, to.row].sort((a, b) => a - b)
    const [first, last] = [from.column, to.column].sort((a, b) => a - b)
    cover(view, band, from.panel, top + .5, bottom + .5, first + .5, last + .5)
  }
  canvas.onpointerup = (event) => {
    const to = end(event), clicked = from && under(from)
    band.style.display = "none"
    if (to) view.send("part", {
      panel: view.p.names[from.panel],
      rows: dragged(from.row, to.row), columns: dragged(from.column, to.column),
    })
    else if (clicked) choose(view, clicked)
    from = null
  }
  canvas.onpointercancel = () => {
    band.style.display = "none"
    from = null
  }
  canvas.onpointerleave = () => from || tell(view, null)
  view.onkeydown = (event) => walk(view, event)
  view.onblur = () => tell(view, null)
  new ResizeObserver(() => view.clientWidth !== view.wide && sized(view)).observe(view)
}

function sized(view) {
  view.wide = view.clientWidth
  draw(view)
}

export default function ({ data, parentElement, setTriggerValue }) {
  const view = parentElement.querySelector(".tiles")
  const known = view.p, p = view.p = read(data)
  view.send = setTriggerValue
  view.images = images(p)
  view.setAttribute("aria-label", p.alt)
  if (!known) {
    for (const name of ["canvas", "frame", "band", "tip"])
      view[name] = view.querySelector(`[data-part=${name}]`)
    listen(view)
    if (document.fonts.status !== "loaded") document.fonts.ready.then(() => draw(view))
  }
  tell(view, null)
  sized(view)
}
