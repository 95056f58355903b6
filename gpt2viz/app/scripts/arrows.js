// Two planes: a query and its keys, and the weighted values, tip to tail. All points can be moved,
// and those that depend on them follow. `data.arrows` are the query, then the keys. Every
// message carries all points and a count; a response to an older count isn't drawn.

import { roundNumbers } from "./chart.js"
import { fixed, isShortcut, make, makeSvg } from "./make.js"

export const html = '<div class="arrows" role="group"></div>'

const REST = 250  // ms from the last key pressed to the message
const GLIDE = 350
const MOVES = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }
const PLANES = { look: "Query and keys", mix: "Values, mixed by the weights" }
const TALL = 6, WIDE = 30  // a label's room, in hundredths of a plane

const plain = (number) => Number(number.toFixed(6)) + 0  // no −0

// The plane that shows all these points: from `low` to `high` on both axes.
export function reach(points) {
  const all = points.flat(), most = 1.15 * Math.max(.1, ...all.map(Math.abs))
  const unit = 10 ** Math.floor(Math.log10(most))
  const high = plain([1, 1.5, 2, 3, 5, 7, 10].find((n) => n * unit >= most) * unit)
  return { low: plain(Math.min(...all) < -.25 * high ? -high : -.3 * high), high }
}

// The step by which arrow keys move a point, and to which dragging rounds.
export const fine = ({ high }) => 10 ** Math.floor(Math.log10(high)) / 20

// A point clamped to the allowed range.
export const clamped = (point, largest) =>
  point.map((x) => plain(Math.min(Math.max(x, -largest), largest)))

export const snapped = (point, by) => point.map((x) => plain(Math.round(x / by) * by))

// The position of a point, in hundredths of a plane from the left and from the top.
/** @param {number[]} point @returns {[number, number]} */
export const positionOf = ([x, y], { low, high }) =>
  [100 * (x - low) / (high - low), 100 * (high - y) / (high - low)]

// The point at a position.
/** @param {number[]} at */
export const point = ([left, top], { low, high }) =>
  [low + left / 100 * (high - low), high - top / 100 * (high - low)]

// Numbers, or lists of them, part of the way from one to the other.
export const mixed = (from, to, share) => Array.isArray(to)
  ? to.map((end, n) => mixed(from[n], end, share)) : from + (to - from) * share

// The results for a query and its keys while a point is being moved, computed like `attend`,
// `shadows` and `tip_to_tail` in textbook/attention.py.
export function followed({ arrows, values, heat }) {
  const [query, ...keys] = arrows, dot = ([x, y], [u, v]) => x * u + y * v
  const size = dot(query, query), scores = keys.map((key) => dot(key, query))
  const shadows = scores.map((score) => query.map((x) => size > 0 ? score / size * x : 0))
  const most = Math.max(...scores), powers = scores.map((score) => Math.exp((score - most) / heat))
  const sum = powers.reduce((a, b) => a + b), weights = powers.map((power) => power / sum)
  const ends = [[0, 0]]
  values.forEach((value, n) => ends.push(value.map((x, m) => ends[n][m] + weights[n] * x)))
  return { arrows, values, shadows, scores, weights, ends }
}

// An arrow between two positions as a path with its head; "" if there is no room for one.
export function arrow([x, y], [u, v]) {
  const long = Math.hypot(u - x, v - y), [dx, dy] = [(u - x) / long, (v - y) / long]
  const head = Math.min(4, long / 2), [bx, by] = [u - head * dx, v - head * dy]
  const side = head * .45
  return long < .2 ? "" : `M${x} ${y}L${bx} ${by}M${u} ${v}`
    + `L${bx - side * dy} ${by + side * dx}L${bx + side * dy} ${by - side * dx}Z`
}

// Labels from the top down, each lowered if it would overlap one above it.
export function apart(labels) {
  const lowered = []
  for (const label of [...labels].sort((a, b) => a.at[1] - b.at[1])) {
    const [x, y] = label.at
    const above = lowered.filter(({ at }) => Math.abs(at[0] - x) < WIDE)
      .map(({ at }) => at[1] + TALL)
    lowered.push({ ...label, at: [x, Math.max(y, ...above)] })
  }
  return lowered
}

// Round numbers on the axes of a plane, with their labels.
export const ticks = ({ low, high }) => roundNumbers([low, high], 3.5 * (high - low) / high)

const words = (numbers) => numbers.map((x) => String(plain(x)).replace("-", "−"))

// The query is point 0, then come the keys, then the values.
const points = ({ arrows, values }) => [...arrows, ...values]

const nameOf = ({ words: all }, n) => n > all.length ? `Value of ${all[n - all.length - 1]}`
  : n ? `Key of ${all[n - 1]}` : `Query of ${all[0]}`

const role = ({ words: all }, n) => n > all.length ? "value" : n ? "key" : "query"

const coordinates = ([across, up], [x, y]) => `${across} ${x}, ${up} ${y}`

// Describe the result of a move in words.
export function describeMove(data, n) {
  const { axes, scores, weights, ends } = data, kind = role(data, n)
  const all = data.words.map((word, m) => `${word} ${fixed(weights[m], 2)}`).join(", ")
  const result = kind === "query" ? `Weights: ${all}`
    : kind === "key" ? `Score ${fixed(scores[n - 1], 2)}, weight ${fixed(weights[n - 1], 2)}`
      : `New ${data.words[0]}: ${coordinates(axes, ends[ends.length - 1].map((x) => fixed(x, 2)))}`
  return `${nameOf(data, n)}: ${coordinates(axes, words(points(data)[n]))}. ${result}.`
}

function grid(svg, box, axes) {
  for (const [n, text] of ticks(box)) {
    const [x, y] = positionOf([n, n], box), kind = n ? "grid" : "axis"
    makeSvg("path", { class: kind, d: `M${x} 0V100M0 ${y}H100` }, svg)
    if (n > 0 && x < 95) write(svg.parentNode, "tick", [x, positionOf([0, 0], box)[1]], text)
  }
  write(svg.parentNode, "end", [100, 100], `${axes[0]} →`)  // where there are rarely points
  write(svg.parentNode, "end up", [positionOf([0, 0], box)[0], 0], `↑ ${axes[1]}`)
}

const stroke = (svg, from, to, box, color, kind) => makeSvg("path", {
  class: kind, d: arrow(positionOf(from, box), positionOf(to, box)), stroke: color, fill: color,
}, svg)

// Write words at a position of a plane, hidden from screen readers: handles and table say the same.
function write(plane, kind, [x, y], text, color = "") {
  const label = make("div", plane, text, `label ${kind}`)
  label.setAttribute("aria-hidden", "true")
  Object.assign(label.style, { left: `${x}%`, top: `${y}%`, color })
}

function name(plane, labels) {
  for (const { at, text, color } of apart(labels))
    write(plane, `name${at[0] > 74 ? " left" : ""}`, at, text, color)
}

// Draw the query and the keys, each key's projection onto the query's line, and their handles.
function look(view, now, box) {
  const { data, look: plane } = view, { colors } = data, [query, ...keys] = now.arrows
  const at = positionOf(query, box)
  const labels = [{ at, text: `query ${data.words[0]}`, color: colors.query }]
  keys.forEach((key, n) => labels.push(
    { at: positionOf(key, box), text: `key ${data.words[n]}`, color: colors.key }))
  const svg = fresh(plane)
  grid(svg, box, data.axes)
  now.shadows.forEach((foot, n) => {
    const [[x, y], [u, v]] = [keys[n], foot].map((end) => positionOf(end, box))
    makeSvg("path", { class: "shadow", d: `M${x} ${y}L${u} ${v}`, stroke: colors.key }, svg)
    makeSvg("circle", { cx: u, cy: v, r: 1.1, fill: colors.key }, svg)
  })
  stroke(svg, [0, 0], query, box, colors.query, "thick")
  keys.forEach((key) => stroke(svg, [0, 0], key, box, colors.key, ""))
  name(plane, labels)
  placeHandles(view.handles, now.arrows, box)
}

// Place the handles at their points.
function placeHandles(handles, tips, box) {
  tips.forEach((tip, n) => {
    const [x, y] = positionOf(tip, box)
    Object.assign(handles[n].style, { left: `${x}%`, top: `${y}%` })
  })
}

// Draw the values, and their weighted pieces tip to tail, which end at the new vector.
function mix(view, now, box) {
  const { data, mix: plane } = view, { colors } = data, labels = []
  const svg = fresh(plane)
  grid(svg, box, data.axes)
  now.values.forEach((value, n) => {
    stroke(svg, [0, 0], value, box, colors.value, "faint")
    labels.push({ at: positionOf(value, box), text: `value ${data.words[n]}`, color: colors.value })
  })
  const end = now.ends[now.ends.length - 1]
  now.ends.slice(1).forEach((tip, n) =>
    stroke(svg, now.ends[n], tip, box, colors.value, "thick piece"))
  stroke(svg, [0, 0], end, box, colors.new, "")
  labels.push({ at: positionOf(end, box), text: `new ${data.words[0]}`, color: colors.new })
  name(plane, labels)
  placeHandles(view.handles.slice(now.arrows.length), now.values, box)
}

function fresh(plane) {
  plane.querySelectorAll(".label").forEach((label) => label.remove())
  const svg = plane.querySelector("svg")
  svg.replaceChildren()
  return svg
}

// The ranges of both planes that are shown.
const ranges = (now) =>
  ({ look: reach([...now.arrows, ...now.shadows]), mix: reach([...now.values, ...now.ends]) })

function paint(view, now) {
  const range = view.range ?? ranges(now)
  view.now = now
  look(view, now, range.look)
  mix(view, now, range.mix)
}

function rows(view, { scores, weights }) {
  const { data } = view
  view.body.replaceChildren()
  data.words.forEach((word, n) => {
    const line = make("tr", view.body), weight = weights[n]
    make("th", line, word).scope = "row"
    make("td", line, fixed(scores[n], 2))
    make("td", line, fixed(weight, 2))
    const bar = make("span", make("td", line, "", "share"), "", "bar")
    Object.assign(bar.style, { width: `${100 * weight}%`, background: data.colors.query })
  })
}

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches

// Animate from what is drawn to what the server has computed.
function glide(view, to) {
  cancelAnimationFrame(view.frame)
  const from = view.now, same = from && from.arrows.length === to.arrows.length
  if (!same || still()) return paint(view, to)
  const start = performance.now()
  const step = (time) => {
    const share = Math.min(1, Math.max(0, time - start) / GLIDE)
    paint(view, share === 1 ? to : Object.fromEntries(Object.keys(to).map((part) =>
      [part, mixed(from[part], to[part], share)])))
    if (share < 1) view.frame = requestAnimationFrame(step)
  }
  view.frame = requestAnimationFrame(step)
}

function send(view, n) {
  const { arrows, values } = view.now
  view.timer = 0
  view.sent += 1
  view.moved = n
  view.send("moved", { arrows, values, count: view.sent })
}

// Move one point: it is drawn at once, with everything that depends on it.
function move(view, n, to) {
  cancelAnimationFrame(view.frame)
  const all = points(view.now).map((old, m) => m === n ? to : old), first = view.now.arrows.length
  const arrows = all.slice(0, first), values = all.slice(first)
  const now = followed({ arrows, values, heat: view.data.heat })
  paint(view, now)
  rows(view, now)
  view.status.textContent = ""
}

function drag(view, handle, n) {
  const plane = planeOf(view, n)
  const under = ({ clientX, clientY }) => {
    const box = view[plane].getBoundingClientRect()
    return point([100 * (clientX - box.left) / box.width, 100 * (clientY - box.top) / box.height]
      .map((x) => Math.min(100, Math.max(0, x))), view.range[plane])
  }
  handle.onpointerdown = (event) => {
    if (event.button) return
    view.range = ranges(view.now)
    view.before = String(points(view.now)[n])
    handle.setPointerCapture(event.pointerId)
  }
  handle.onpointermove = (event) => {
    if (!handle.hasPointerCapture(event.pointerId)) return
    move(view, n, clamped(snapped(under(event), fine(view.range[plane])), view.data.largest))
  }
  handle.onpointerup = handle.onpointercancel = () => {
    if (!view.range) return
    view.range = null
    if (String(points(view.now)[n]) !== view.before) send(view, n)
  }
}

const planeOf = ({ data }, n) => role(data, n) === "value" ? "mix" : "look"

function walk(view, event, n) {
  const by = MOVES[event.key]
  if (!by || isShortcut(event)) return
  event.preventDefault()
  const far = fine(ranges(view.now)[planeOf(view, n)]), from = points(view.now)[n]
  move(view, n, clamped(from.map((x, m) => x + by[m] * far), view.data.largest))
  clearTimeout(view.timer)
  view.timer = setTimeout(send, REST, view, n)
}

function build(view, data) {
  const { root } = view
  root.replaceChildren()
  const planes = make("div", root, "", "planes")
  for (const [kind, title] of Object.entries(PLANES)) {
    const figure = make("figure", planes)
    make("figcaption", figure, title)
    view[kind] = make("div", figure, "", "plane")
    makeSvg("svg", { viewBox: "0 0 100 100", "aria-hidden": true }, view[kind])
  }
  const table = make("table", planes), head = make("tr", make("thead", table))
  for (const title of ["word", "score", "weight"]) make("th", head, title).scope = "col"
  make("td", head)
  view.body = make("tbody", table)
  view.status = make("p", root, "", "status")
  view.status.setAttribute("role", "status")
  view.handles = points(data).map((_, n) => {
    const handle = make("button", view[planeOf(view, n)], "", n ? "handle" : "handle query")
    handle.onkeydown = (event) => walk(view, event, n)
    drag(view, handle, n)
    return handle
  })
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".arrows"), made = String(data.words)
  const view = root.view ??= { root, sent: 0 }
  if (view.made !== made) {
    Object.assign(view, { made, data, now: null, sent: data.count, range: null, timer: 0 })
    build(view, data)
  }
  view.send = setTriggerValue
  if (data.count < view.sent || view.range || view.timer) return
  Object.assign(view, { data, sent: data.count })
  root.setAttribute("aria-label", data.alt)
  view.handles.forEach((handle, n) => {
    const position = coordinates(data.axes, words(points(data)[n]))
    handle.style.color = data.colors[role(data, n)]
    handle.setAttribute("aria-label", `${nameOf(data, n)}: ${position}. Arrow keys move it.`)
  })
  rows(view, data)
  glide(view, { arrows: data.arrows, shadows: data.shadows, values: data.values, ends: data.ends })
  if (view.moved !== undefined) view.status.textContent = describeMove(data, view.moved)
}
