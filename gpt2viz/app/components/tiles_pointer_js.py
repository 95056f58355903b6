"""Small matrices under the pointer and by keyboard: numbers, clicks, and parts dragged out."""

JS = """
// A pointer that moved less, in pixels, between down and up has clicked: Plotly's own limit.
const CLICK = 8

// The panel and the place in it, in cells, where the middle of the first cell is 0.
function place({ look }, x, y) {
  const { boxes, cell, w, h } = look
  const panel = boxes.findIndex((box) =>
    x >= box.x && x < box.x + w && y >= box.y && y < box.y + h)
  if (panel < 0) return null
  return {
    panel,
    row: (y - boxes[panel].y) / cell - .5,
    column: (x - boxes[panel].x) / cell - .5,
  }
}

const under = (at) => at &&
  { panel: at.panel, row: Math.round(at.row), column: Math.round(at.column) }

function cover(view, element, panel, top, bottom, first, last) {
  const { boxes, cell } = view.look
  Object.assign(element.style, {
    display: "block", left: `${boxes[panel].x + first * cell}px`,
    top: `${boxes[panel].y + top * cell}px`,
    width: `${(last - first) * cell}px`, height: `${(bottom - top) * cell}px`,
  })
}

// What stands in a cell, in text nodes only: tokens are anybody's text.
function tell(view, at) {
  const { p, tip, frame } = view
  view.at = at
  tip.style.display = frame.style.display = "none"
  if (!at) return
  const n = (at.panel * p.rows.length + at.row) * p.columns.length + at.column
  const what = kind(p, n)
  const said = what ? p.special[what - 1].text
    : `${p.quantity} ${String(Number(p.values[n].toPrecision(6)))}`
  const bold = (text) => Object.assign(document.createElement("b"), { textContent: text })
  tip.replaceChildren(`${p.titles[at.panel]}\\n${p.down} `, bold(p.rows[at.row]),
    `\\n${p.wide} `, bold(p.columns[at.column]), `\\n${said}`)
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

function walk(view, event) {
  const { p } = view
  if (event.key === "Escape") tell(view, null)
  else if ((event.key === "Enter" || event.key === " ") && view.at) choose(view, view.at)
  else if (MOVES[event.key]) {
    const [what, by] = MOVES[event.key]
    const at = { ...view.at ?? { panel: 0, row: 0, column: 0 } }
    const { length } = { row: p.rows, column: p.columns, panel: p.names }[what]
    if (view.at) at[what] = Math.min(Math.max(at[what] + by, 0), length - 1)
    tell(view, at)
  } else return
  event.preventDefault()
}

function choose(view, { panel, row, column }) {
  view.send("cell", { panel: view.p.names[panel], row, column })
}

// The cells whose middle was dragged over.
function drag(view, from, to) {
  const cells = (a, b) => {
    const [low, high] = [a, b].sort((x, y) => x - y)
    return [Math.ceil(low), Math.floor(high)]
  }
  const rows = cells(from.row, to.row), columns = cells(from.column, to.column)
  view.send("part", { panel: view.p.names[from.panel], rows, columns })
}

function listen(view) {
  const { canvas, dragged } = view
  let from = null, start = null
  canvas.onpointerdown = (event) => {
    start = [event.offsetX, event.offsetY]
    from = place(view, ...start)
    if (from) canvas.setPointerCapture(event.pointerId)
  }
  const end = ({ offsetX, offsetY }) => {
    if (!from || Math.hypot(offsetX - start[0], offsetY - start[1]) < CLICK) return null
    const { w, h, boxes } = view.look, box = boxes[from.panel]
    const inside = (value, low, size) => Math.min(Math.max(value, low), low + size - .01)
    return place(view, inside(offsetX, box.x, w), inside(offsetY, box.y, h))
  }
  canvas.onpointermove = (event) => {
    const to = end(event)
    if (!to) return tell(view, under(place(view, event.offsetX, event.offsetY)))
    tell(view, null)
    const [top, bottom] = [from.row, to.row].sort((a, b) => a - b)
    const [first, last] = [from.column, to.column].sort((a, b) => a - b)
    cover(view, dragged, from.panel, top + .5, bottom + .5, first + .5, last + .5)
  }
  canvas.onpointerup = (event) => {
    const to = end(event), clicked = from && under(from)
    dragged.style.display = "none"
    if (to) drag(view, from, to)
    else if (clicked) choose(view, clicked)
    from = null
  }
  canvas.onpointercancel = () => {
    dragged.style.display = "none"
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
    for (const name of ["canvas", "frame", "dragged", "tip"])
      view[name] = view.querySelector(`[data-part=${name}]`)
    listen(view)
    if (document.fonts.status !== "loaded") document.fonts.ready.then(() => draw(view))
  }
  tell(view, null)
  sized(view)
}
"""
