// The diagram of the model: boxes, and arrows between their measured positions. `data` has `alt`,
// `rows` of boxes and notes, and `edges` (from, to, kind) between boxes.

import { make, makeSvg } from "./make.js"
import { zoomOf } from "./matrix.js"

export const html = '<div class="flow" role="group"></div>'

// The head of an arrow that arrives at (x, y), going in the direction (dx, dy).
const head = (x, y, dx, dy) =>
  `M${x},${y} l${-6 * dx - 3.5 * dy},${-6 * dy - 3.5 * dx} l${7 * dy},${7 * dx} z`

// An arrow between two boxes, as SVG elements (tag, attributes). The stream's passes boxes on their
// left and ends in a plus; a side arrow passes on their right; others go straight down from the
// middle of the narrower box.
export function arrow(a, b, kind) {
  const path = (d, more = "") => ["path", { class: kind + more, d }]
  if (kind === "residual") {
    const x = Math.min(a.left, b.left) - 30
    return [
      path(`M${a.left},${a.y} H${x + 8} Q${x},${a.y} ${x},${a.y + 8}`
        + ` V${b.y - 8} Q${x},${b.y} ${x + 8},${b.y} H${b.left - 20}`),
      path(head(b.left, b.y, 1, 0), " head"),
      ["circle", { class: kind, cx: b.left - 14, cy: b.y, r: 6 }],
      path(`M${b.left - 18},${b.y} h8 M${b.left - 14},${b.y - 4} v8`),
    ]
  }
  if (kind === "side") {
    const x = Math.max(a.right, b.right) + 16
    return [
      path(`M${a.right},${a.y} H${x - 6} Q${x},${a.y} ${x},${a.y + 6}`
        + ` V${b.y - 6} Q${x},${b.y} ${x - 6},${b.y} H${b.right + 5}`),
      path(head(b.right, b.y, -1, 0), " head"),
    ]
  }
  const wide = ({ left, right }) => right - left
  const x = wide(a) < wide(b) ? a.x : b.x
  return [path(`M${x},${a.bottom} V${b.top - 5}`), path(head(x, b.top, 0, 1), " head")]
}

// The parts of a module's name, between which lines may break.
export const pieces = (name) => name.split(/(?<=[._])/)

function box(node, into, send) {
  const made = make("button", into, "", "node")
  made.disabled = !node.page
  if (node.page) made.title = `Open ${node.page}`
  const name = make("b", made)
  for (const part of pieces(node.name)) name.append(part, document.createElement("wbr"))
  make("span", made, node.kind)
  make("code", made, node.shape)
  make("i", made, node.parameters)
  made.onclick = () => send("node", node.module)
  return made
}

// The position of a box, relative to the corner of the diagram.
function positionOf(element, at) {
  const edge = element.getBoundingClientRect(), zoom = zoomOf(element)
  const [left, right] = [edge.left, edge.right].map((x) => (x - at.left) / zoom)
  const [top, bottom] = [edge.top, edge.bottom].map((y) => (y - at.top) / zoom)
  return { left, right, top, bottom, x: (left + right) / 2, y: (top + bottom) / 2 }
}

function draw(root, svg, boxes, edges) {
  const at = root.getBoundingClientRect()
  svg.replaceChildren()
  svg.setAttribute("width", root.clientWidth)
  svg.setAttribute("height", root.clientHeight)
  for (const [from, to, kind] of edges)
    arrow(positionOf(boxes[from], at), positionOf(boxes[to], at), kind)
      .forEach(([tag, attributes]) => makeSvg(tag, attributes, svg))
}

export default function ({ data, setTriggerValue, parentElement }) {
  const root = parentElement.querySelector(".flow")
  root.watch?.disconnect()
  root.replaceChildren()
  root.setAttribute("aria-label", data.alt)
  const boxes = {}
  for (const row of data.rows) {
    if (row.note) { make("div", root, row.note, "note"); continue }
    const line = make("div", root, "", `row of${row.nodes.length}`)
    for (const node of row.nodes) boxes[node.module] = box(node, line, setTriggerValue)
    if (row.gap) make("div", line, "", "gap")
  }
  const svg = makeSvg("svg", { "aria-hidden": true })
  root.prepend(svg)
  root.watch = new ResizeObserver(() => draw(root, svg, boxes, data.edges))
  root.watch.observe(root)
  return () => root.watch.disconnect()
}
