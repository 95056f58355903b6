// The diagram of the model: boxes, and arrows measured from them. `data` has `alt`, `rows` of boxes
// and notes, and `edges` (from, to, kind) between boxes.

export default function ({ data, setTriggerValue, parentElement }) {
  const root = parentElement.querySelector(".flow")
  root.watch?.disconnect()
  root.replaceChildren()
  root.setAttribute("aria-label", data.alt)
  const make = (tag, name, text, into) => {
    const made = document.createElement(tag)
    made.className = name
    if (text) made.textContent = text
    into.append(made)
    return made
  }
  const boxes = {}
  for (const row of data.rows) {
    if (row.note) { make("div", "note", row.note, root); continue }
    const line = make("div", `row of${row.nodes.length}`, "", root)
    for (const node of row.nodes) {
      const box = boxes[node.module] = make("button", "node", "", line)
      box.disabled = !node.page
      if (node.page) box.title = `Open ${node.page}`
      make("b", "", node.name, box)
      make("span", "", node.kind, box)
      make("code", "", node.shape, box)
      make("i", "", node.parameters, box)
      box.onclick = () => setTriggerValue("node", node.module)
    }
  }
  const SVG = "http://www.w3.org/2000/svg"
  const svg = document.createElementNS(SVG, "svg")
  svg.setAttribute("aria-hidden", "true")
  root.prepend(svg)
  const add = (tag, attributes) => {
    const made = document.createElementNS(SVG, tag)
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value)
    svg.append(made)
  }
  const draw = () => {
    const at = root.getBoundingClientRect()
    const place = (box) => {
      const r = box.getBoundingClientRect()
      return { left: r.left - at.left, right: r.right - at.left, top: r.top - at.top,
               bottom: r.bottom - at.top, x: (r.left + r.right) / 2 - at.left,
               y: (r.top + r.bottom) / 2 - at.top }
    }
    const head = (x, y, dx, dy, kind) => add("path", { class: kind + " head",
      d: `M${x},${y} l${-6 * dx - 3.5 * dy},${-6 * dy - 3.5 * dx}`
        + ` l${7 * dy},${7 * dx} z` })
    svg.replaceChildren()
    svg.setAttribute("width", at.width)
    svg.setAttribute("height", at.height)
    for (const [from, to, kind] of data.edges) {
      const a = place(boxes[from]), b = place(boxes[to])
      if (kind === "residual") {
        const x = Math.min(a.left, b.left) - 30
        add("path", { class: kind, d: `M${a.left},${a.y} H${x + 8} Q${x},${a.y} ${x},${a.y + 8}`
          + ` V${b.y - 8} Q${x},${b.y} ${x + 8},${b.y} H${b.left - 20}` })
        head(b.left, b.y, 1, 0, kind)
        add("circle", { class: kind, cx: b.left - 14, cy: b.y, r: 6 })
        add("path", { class: kind, d: `M${b.left - 18},${b.y} h8 M${b.left - 14},${b.y - 4} v8` })
      } else if (kind === "side") {
        const x = Math.max(a.right, b.right) + 16
        add("path", { class: kind, d: `M${a.right},${a.y} H${x - 6} Q${x},${a.y} ${x},${a.y + 6}`
          + ` V${b.y - 6} Q${x},${b.y} ${x - 6},${b.y} H${b.right + 5}` })
        head(b.right, b.y, -1, 0, kind)
      } else {
        const wide = (box) => box.right - box.left
        const x = wide(a) < wide(b) ? a.x : b.x
        add("path", { class: kind, d: `M${x},${a.bottom} V${b.top - 5}` })
        head(x, b.top, 0, 1, kind)
      }
    }
  }
  root.watch = new ResizeObserver(draw)
  root.watch.observe(root)
  return () => root.watch.disconnect()
}
