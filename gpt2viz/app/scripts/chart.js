// Draws bars, curves and points as SVG, from the figures of figure.js, on pages and in files.
// Plotly's own library takes a browser over a second to load: most of a page's first draw.

import { figureOf } from "./figure.js"
import { make, makeSvg } from "./make.js"
import { showTip, zoomOf } from "./matrix.js"
import { sender } from "./state.js"

export const html = `
<div class="chart"><div class="legend"></div><svg role="img"></svg><div class="tip"></div></div>`

const LETTER = 12, TITLE = 18, LEGEND = 26, SAMPLE = 26

// The largest distance at which the pointer selects a point, in pixels.
const NEAR = 24

// A text in one line.
const plain = (words) => String(words ?? "").replaceAll("\n", " ")

const short = (number) => {
  const size = Math.abs(number), unit = size >= 1e6 ? 1e6 : size >= 1e3 ? 1e3 : 1
  return `${Number((number / unit).toPrecision(6))}${{ 1e3: "k", 1e6: "M" }[unit] ?? ""}`
    .replace("-", "−")
}

/** About `count` round numbers between the ends of an axis, but at least two: [number, label]. */
export function roundNumbers([low, high], count) {
  const exact = (high - low) / count, power = 10 ** Math.floor(Math.log10(exact))
  const step = [1, 2, 5, 10].find((n) => n * power >= exact) * power
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), numbers = []
  for (let n = Math.ceil(low / step - 1e-6) + 0; n * step <= high + step * 1e-6; n++)
    numbers.push([n * step, high >= 1e4 ? short(n * step)
      : (n * step).toFixed(digits).replace(/^-(0\.?0*)$/, "$1").replace("-", "−")])
  return numbers.length > 1 || !(low < high) ? numbers : roundNumbers([low, high], 2 * count)
}

/** An axis of a figure: the positions of its values, and its ends.
 *
 * @returns {any} */
export function axisOf(name, { layout, data }) {
  const letter = name[0], own = layout[`${letter}axis${name.slice(1)}`] ?? {}
  const on = data.filter((trace) => (trace[`${letter}axis`] ?? letter) === name)
  const values = on.flatMap((trace) => trace[letter])
  const named = values.some((value) => typeof value === "string")
  const names = named ? [...new Set(values)] : []
  const numberOf = named ? (value) => names.indexOf(value)
    : (value) => value === null ? NaN : own.type === "log" ? Math.log10(value) : value
  const numbers = values.map(numberOf).filter(Number.isFinite)
  let [low, high] = [Math.min(...numbers), Math.max(...numbers)]
  const fromZero = own.rangemode === "tozero"
  if (fromZero) [low, high] = [Math.min(0, low), Math.max(0, high)]
  if (named) [low, high] = [-.3, names.length - .7]
  else if (letter === "y"
    || on.some(({ type, mode }) => type === "bar" || mode?.includes("markers"))) {
    const free = (high - low || 1) * .055
    low -= fromZero && low === 0 ? 0 : free
    high += fromZero && high === 0 ? 0 : free
  }
  if (!numbers.length || (fromZero && low === high)) [low, high] = [0, 1]
  if (low === high) [low, high] = [low - 1, high + 1]
  const ends = [own.range?.[0] ?? low, own.range?.[1] ?? high]
  return { own, numberOf, names, ends, domain: own.domain ?? [0, 1] }
}

/** The ticks of an axis of a length in pixels: [number, label]. */
export function ticksOf({ own, names, ends }, pixels, room) {
  if (own.showticklabels === false) return []
  if (own.tickvals) return own.tickvals.map((at, n) => [at, plain(own.ticktext[n])])
  if (names.length) return names.map((name, n) => [n, plain(name)])
  const [low, high] = [Math.min(...ends), Math.max(...ends)]
  if (own.type !== "log") return roundNumbers([low, high], Math.max(2, pixels / room))
  const digits = Math.floor(high) > Math.ceil(low) ? [1] : [1, 2, 5], ticks = []
  for (let n = Math.floor(low); n <= high; n++) for (const digit of digits) {
    const at = n + Math.log10(digit)
    if (low <= at && at <= high) ticks.push([at, short(Number(`${digit}e${n}`))])
  }
  return ticks
}

/** The traces that are in the legend. */
export function namedOf({ layout, data }) {
  const some = data.filter(({ name, showlegend }) => name && showlegend !== false)
  const all = some.length > 1 || some.some(({ showlegend }) => showlegend)
  return layout.showlegend ?? all ? some : []
}

// The pattern of a line 2 pixels wide, and larger for a wider line.
const dashed = ({ dash = "solid", width = 2 }, dashes) =>
  ({ "stroke-dasharray": dashes[dash].map((n) => n * Math.max(1, width / 2)) })

const SIGNS = {
  circle: (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
  square: (r) => `M${-r} ${-r}H${r}V${r}H${-r}Z`,
  diamond: (r) => `M0 ${-1.3 * r}L${1.3 * r} 0L0 ${1.3 * r}L${-1.3 * r} 0Z`,
}
const FILLS = { "/": "M0 6L6 0", "\\": "M0 0L6 6", x: "M0 6L6 0M0 0L6 6" }

// The value of a trace's attribute at its n-th point: one per point, or one for all.
const valueAt = (value, n) => Array.isArray(value) ? value[n] : value

let measured = null, family = '"Source Sans", sans-serif'
function widthOf(words) {
  measured ??= document.createElement("canvas").getContext("2d")
  measured.font = `${LETTER}px ${family}`
  return measured.measureText(words).width
}
const longest = (ticks) => Math.max(0, ...ticks.map(([, written]) => widthOf(written)))

// The layout in pixels: a plot for each pair of axes that traces are drawn on.
export function layOut(figure, width, legend) {
  const { layout, data } = figure, margin = { l: 8, r: 8, b: 8, ...layout.margin }
  const above = legend && layout.legend?.yref !== "container"
  const height = layout.height - (above ? LEGEND : 0), fixed = margin.autoexpand === false
  const top = above ? Math.max(10, margin.t - LEGEND) : margin.t
  const pairs = new Map([{}, ...data].map(({ xaxis = "x", yaxis = "y" }) =>
    [xaxis + yaxis, [xaxis, yaxis]])) // the first even if nothing is drawn on it
  const plots = [...pairs.values()].map(([x, y]) =>
    ({ x: axisOf(x, figure), y: axisOf(y, figure) }))
  const [{ y: first }] = plots, titleRoom = (axis) => axis.own.title ? TITLE : 0
  const names = ticksOf(first, height, 36)
  const left = fixed ? margin.l : Math.max(margin.l, longest(names) + 10 + titleRoom(first))
  const room = width - left - margin.r - (fixed ? 0 : 6)
  for (const { x } of plots) {
    x.low = left + room * x.domain[0]
    x.size = room * (x.domain[1] - x.domain[0])
    x.ticks = ticksOf(x, x.size, 60)
    const words = x.own.tickangle !== 0 && (x.names.length || x.own.ticktext)
    x.turned = Boolean(words) && longest(x.ticks) + 8 > x.size / Math.max(1, x.ticks.length)
    const every = x.turned ? Math.ceil((LETTER + 2) * x.ticks.length / x.size) : 1
    x.ticks = x.ticks.filter((_, n) => n % every === 0)
  }
  const roomUnder = ({ x }) => (x.turned ? longest(x.ticks) + 10 : 20) + titleRoom(x)
  const bottom = fixed ? margin.b : Math.max(margin.b, ...plots.map(roomUnder))
  for (const { x, y } of plots) {
    y.low = height - bottom
    y.size = -(height - bottom - top)
    if (y.own.scaleanchor) fitScales(x, y)
    y.ticks = ticksOf(y, -y.size, 36)
    for (const axis of [x, y]) axis.at = (value) => scaled(axis, axis.numberOf(value))
  }
  return { plots, height, top, pairs: [...pairs.keys()] }
}

const scaled = ({ ends: [from, to], low, size }, number) =>
  low + (number - from) / (to - from) * size

// Make both axes have the same units per pixel: the axis with more room gets a wider range.
function fitScales(x, y) {
  const units = ({ ends: [from, to], size }) => Math.abs((to - from) / size)
  const [small, large] = units(x) < units(y) ? [x, y] : [y, x]
  const more = (units(large) / units(small) - 1) / 2 * (small.ends[1] - small.ends[0])
  small.ends = [small.ends[0] - more, small.ends[1] + more]
}

function text(svg, lines, x, y, attributes = {}) {
  const made = makeSvg("text", { x, y, ...attributes }, svg), first = -.6 * (lines.length - 1)
  if (lines.length === 1) made.textContent = lines[0]
  else lines.forEach((line, n) => {
    makeSvg("tspan", { x, dy: `${n ? 1.2 : first}em` }, made).textContent = line
  })
  return made
}

function drawAxes(svg, { x, y }, top, grid) {
  const bottom = y.low, right = x.low + x.size
  for (const [number, written] of x.ticks) {
    const at = scaled(x, number)
    if (!x.own.tickvals && !x.names.length)
      makeSvg("path", { class: "grid", d: `M${at} ${top}V${bottom}`, stroke: grid }, svg)
    text(svg, [written], at, bottom + 15, x.turned
      ? { class: "tick", "text-anchor": "end",
        transform: `translate(4 -8) rotate(-90 ${at} ${bottom + 15})` }
      : { class: "tick", "text-anchor": "middle" })
  }
  for (const [number, written] of y.ticks) {
    const at = scaled(y, number)
    if (!y.own.tickvals && !y.names.length)
      makeSvg("path", { class: "grid", d: `M${x.low} ${at}H${right}`, stroke: grid }, svg)
    text(svg, [written], x.low - 6, at + 4, { class: "tick", "text-anchor": "end" })
  }
  for (const [axis, d] of [[x, (at) => `M${at} ${top}V${bottom}`],
    [y, (at) => `M${x.low} ${at}H${right}`]]) {
    const at = scaled(axis, 0), within = (at - axis.low) / axis.size
    if (axis.own.type !== "log" && !axis.names.length && !axis.own.tickvals
      && within >= -1e-6 && within <= 1 + 1e-6)
      makeSvg("path", { class: "zero", d: d(at), stroke: grid }, svg)
  }
  const [acrossTitle, upTitle] = [x, y].map(({ own }) => plain(own.title))
  const base = bottom + (x.turned ? longest(x.ticks) + 8 : 20), middle = (top + bottom) / 2
  if (acrossTitle)
    text(svg, [acrossTitle], x.low + x.size / 2, base + 13, { "text-anchor": "middle" })
  if (upTitle)
    text(svg, [upTitle], 12, middle,
      { "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` })
}

let fills = 0 // of the whole page: the ids of patterns

function filled(svg, marker, n) {
  const fill = FILLS[valueAt(marker.pattern?.shape, n)], color = valueAt(marker.color, n)
  if (!fill) return color
  const id = `fill${fills++}`
  const pattern = makeSvg("pattern",
    { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, svg)
  makeSvg("path", { d: fill, stroke: color, "stroke-width": 1.5 }, pattern)
  return `url(#${id})`
}

// Draw a trace's bars, in its slot of several at each position, with numbers at their ends.
function drawBars(svg, trace, { x, y }, [slot, slots], gap, target) {
  const lying = trace.orientation === "h", [along, across] = lying ? [x, y] : [y, x]
  const wide = (1 - gap) / slots, [at, values] = lying ? [trace.y, trace.x] : [trace.x, trace.y]
  values.forEach((value, n) => {
    if (!Number.isFinite(value)) return
    const start = across.numberOf(at[n]) - (1 - gap) / 2 + slot * wide
    const sides = [start, start + wide].map((side) => scaled(across, side)).sort((a, b) => a - b)
    const ends = [scaled(along, 0), along.at(value)].sort((a, b) => a - b)
    const [[left, right], [top, bottom]] = lying ? [ends, sides] : [sides, ends]
    const box = { x: left, y: top, w: right - left, h: bottom - top }
    makeSvg("rect", { class: "bar", x: box.x, y: box.y, width: box.w, height: box.h,
      fill: filled(svg, trace.marker, n), stroke: valueAt(trace.marker.color, n) }, svg)
    target(n, { ...box, box: true })
    const written = trace.text?.[n]
    if (!written) return
    const middle = (left + right) / 2
    if (lying) text(svg, [plain(written)], value < 0 ? left - 4 : right + 4, (top + bottom) / 2 + 4,
      { class: "number", "text-anchor": value < 0 ? "end" : "start" })
    else if (trace.textangle) text(svg, [plain(written)], middle + 4, top - 4,
      { class: "number", transform: `rotate(-90 ${middle + 4} ${top - 4})` })
    else text(svg, written.split("\n"), middle, value < 0 ? bottom + 13 : top - 5,
      { class: "number", "text-anchor": "middle" })
  })
}

const BESIDE = { "middle right": [10, 4, "start"], "middle left": [-10, 4, "end"],
  "top center": [0, -10, "middle"], "bottom center": [0, 20, "middle"] }

function drawPoints(svg, trace, { x, y }, dashes, target) {
  const points = trace.x.map((value, n) => [x.at(value), y.at(trace.y[n])])
  const drawable = ([a, b]) => Number.isFinite(a) && Number.isFinite(b)
  const { mode, line, marker, opacity = 1 } = trace
  if (mode.includes("lines")) {
    const d = points.map((point, n) => !drawable(point) ? ""
      : `${n && drawable(points[n - 1]) ? "L" : "M"}${point[0].toFixed(2)} ${point[1].toFixed(2)}`)
    makeSvg("path", { class: "curve", d: d.join(""), fill: "none", stroke: line.color, opacity,
      "stroke-width": line.width ?? 2, "stroke-linejoin": "round", ...dashed(line, dashes) }, svg)
  }
  points.forEach((point, n) => {
    if (!drawable(point)) return
    const [left, top] = point
    if (mode.includes("markers")) drawSign(svg, trace, n, point)
    const written = valueAt(trace.text, n)
    const [by, down, anchor] = BESIDE[valueAt(trace.textposition, n)] ?? [0, 4, "middle"]
    if (mode.includes("text") && written)
      text(svg, written.split("\n"), left + by, top + down, { "text-anchor": anchor })
    const half = mode.includes("markers") ? (valueAt(marker.size, n) ?? 6) / 2 : 0
    target(n, { x: left - half, y: top - half, w: 2 * half, h: 2 * half })
  })
}

function drawSign(svg, { marker, line }, n, [left, top]) {
  const [sign, open] = (valueAt(marker.symbol, n) ?? "circle").split("-")
  const color = valueAt(marker.color, n) ?? line.color, edge = marker.line ?? {}
  makeSvg("path", { class: "point", d: SIGNS[sign]((valueAt(marker.size, n) ?? 6) / 2),
    transform: `translate(${left.toFixed(2)} ${top.toFixed(2)})`, fill: open ? "none" : color,
    stroke: open ? color : valueAt(edge.color, n) ?? color,
    "stroke-width": open ? 2 : valueAt(edge.width, n) ?? 0 }, svg)
}

// Draw a sample of a trace for the legend.
function drawSample(svg, trace, dashes) {
  if (trace.type === "bar") makeSvg("rect", { x: 5, y: 0, width: 16, height: 12,
    fill: filled(svg, trace.marker, 0), stroke: valueAt(trace.marker.color, 0) }, svg)
  else {
    if (trace.mode.includes("lines")) makeSvg("path", { d: `M0 6H${SAMPLE}`,
      stroke: trace.line.color, "stroke-width": trace.line.width ?? 2,
      ...dashed(trace.line, dashes) }, svg)
    if (trace.mode.includes("markers")) drawSign(svg, trace, 0, [13, 6])
  }
}

/** A picture as a standalone SVG, `width` pixels wide, with its legend, in a font of every
 * machine. */
export function svgOf(picture, width) {
  const ofPage = family
  family = picture.family
  const parentElement = make("div", document.body)
  parentElement.style.cssText = `position: absolute; visibility: hidden; width: ${width}px`
  parentElement.innerHTML = html
  show({ data: { picture }, parentElement, setTriggerValue: () => {} })
  const view = parentElement.querySelector(".chart"), { figure } = view, named = namedOf(figure)
  const { legend, height } = figure.layout, above = named.length && legend?.yref !== "container"
  const made = makeSvg("svg", { class: "chart", width, height, "font-family": family })
  const { ink } = picture.colors
  makeSvg("style", {}, made).textContent =
    `.chart text { fill: ${ink}; font-size: ${LETTER}px } .chart .grid { opacity: .5 }`
  makeSvg("svg", { y: above ? LEGEND : 0, width, height }, made).append(...view.svg.childNodes)
  const rooms = named.map(({ name }) => SAMPLE + 5 + widthOf(plain(name)) + 16)
  let x = above ? 0 : width - rooms.reduce((sum, room) => sum + room, 0)
  named.forEach((trace, n) => {
    drawSample(makeSvg("svg", { x, y: above ? 7 : height - 19, width: SAMPLE, height: 12 }, made),
      trace, figure.dashes)
    text(made, [plain(trace.name)], x + SAMPLE + 5, above ? 17 : height - 9)
    x += rooms[n]
  })
  parentElement.remove()
  family = ofPage
  return made
}

function drawLegend(view, named) {
  const { legend, figure: { layout, dashes } } = view, toggles = layout.legend?.itemclick !== false
  legend.replaceChildren()
  legend.classList.toggle("under", layout.legend?.yref === "container")
  for (const trace of named) {
    const entry = make(toggles ? "button" : "span", legend)
    const sample = makeSvg("svg", { width: SAMPLE, height: 12, "aria-hidden": "true" }, entry)
    drawSample(sample, trace, dashes)
    entry.append(plain(trace.name))
    if (!toggles) continue
    Object.assign(entry, { type: "button", onclick: () => {
      view.off[view.off.delete(trace.name) ? "delete" : "add"](trace.name)
      draw(view)
      view.querySelectorAll(".legend button")[named.indexOf(trace)].focus()
    } })
    entry.setAttribute("aria-pressed", String(!view.off.has(trace.name)))
  }
}

function draw(view) {
  const { svg, figure, off } = view, { layout, data } = figure, named = namedOf(figure)
  const width = view.wide = view.clientWidth
  if (!width) return
  drawLegend(view, named)
  const { plots, height, top, pairs } = layOut(figure, width, named.length > 0)
  svg.replaceChildren()
  svg.setAttribute("width", width)
  svg.setAttribute("height", height)
  plots.forEach((plot) => drawAxes(svg, plot, top, figure.grid))
  view.targets = []
  const bars = data.filter(({ type }) => type === "bar"), group = layout.barmode === "group"
  for (const trace of data) {
    if (off.has(trace.name)) continue
    const plot = plots[pairs.indexOf((trace.xaxis ?? "x") + (trace.yaxis ?? "y"))]
    const target = (n, box) => {
      const hover = trace.hovertext?.[n]
      if (hover) view.targets.push({ ...box, hover, data: trace.customdata?.[n] })
    }
    const own = makeSvg("g", { class: "trace" }, svg)
    if (trace.type !== "bar") drawPoints(own, trace, plot, figure.dashes, target)
    else drawBars(own, trace, plot, group ? [bars.indexOf(trace), bars.length] : [0, 1],
      layout.bargap, target)
  }
  layout.annotations?.forEach(({ text: words, x }) => {
    const { low } = plots[0].x, last = plots.at(-1).x
    text(svg, [plain(words)], low + x * (last.low + last.size - low), top - 6,
      { "text-anchor": "middle" })
  })
}

/** The target under the pointer, or else the nearest within reach. */
export function targetAt(targets, x, y) {
  const distance = ({ x: left, y: top, w, h }) => Math.hypot(
    Math.max(left - x, 0, x - left - w), Math.max(top - y, 0, y - top - h))
  const near = targets.toReversed().map((point) => [distance(point), point])
    .filter(([far, { box }]) => far <= (box ? 6 : NEAR))
  return near.sort(([a], [b]) => a - b)[0]?.[1]
}

function listen(view) {
  const { svg, tip } = view
  const under = ({ clientX, clientY }) => {
    const { left, top } = svg.getBoundingClientRect(), zoom = zoomOf(svg)
    return targetAt(view.targets ?? [], (clientX - left) / zoom, (clientY - top) / zoom)
  }
  const hide = () => { tip.style.display = "none" }
  svg.onpointermove = (event) => {
    const point = under(event)
    svg.style.cursor = view.p.chooses && point?.data ? "pointer" : ""
    if (!point) return hide()
    tip.textContent = point.hover
    showTip(tip, view, { ...point, y: point.y + view.clientHeight - svg.clientHeight })
  }
  svg.onpointerleave = hide
  svg.onclick = (event) => {
    const point = under(event)
    if (view.p.chooses && point?.data) view.send("picked", point.data)
  }
  new ResizeObserver(() => view.clientWidth !== view.wide && draw(view)).observe(view)
}

export default function show({ data: p, parentElement, setTriggerValue }) {
  const view = parentElement.querySelector(".chart"), known = view.p
  const figure = p.figure ?? figureOf(p.picture)
  Object.assign(view, { p, figure, off: new Set(), send: sender(setTriggerValue) })
  if (!known) {
    for (const [name, selector] of Object.entries({ svg: ":scope > svg", legend: ".legend",
      tip: ".tip" })) view[name] = view.querySelector(selector)
    listen(view)
  }
  view.svg.setAttribute("aria-label", p.alt)
  view.tip.style.display = "none"
  draw(view)
  if (document.fonts.status !== "loaded") document.fonts.ready.then(() => draw(view))
}
