// Lines: tokens on both sides, lines between them, numbers on demand. A source is a head: the
// queries `q`, keys `k` and weights `v` of its lines. A side is "q" or "k".

import { isShortcut, make, makeSvg, nextIndex } from "./make.js"

export const html = `
<div class="view" role="group">
  <div class="heads"></div>
  <div class="summary" aria-live="polite"></div>
  <div class="ends"><span>query: who looks</span><span>key: what it looks at</span></div>
  <div class="scroll"></div>
  <p class="left-out"></p>
</div>
`

const BORDERS = ["none", "dashed", "dotted", "double"]
const SIDES = { q: ["queries", "query", "looks at"], k: ["keys", "key", "is looked at by"] }

// Matrices that are `wide` cells wide as lines: the `threshold`, the least number that gets a line,
// so that there aren't too many, the least drawn while nothing is hovered over, and the share that
// is left out. The widest line stands for `peak`, or for the largest number if that is
// null. `lines` in pictures/lines.py does the same.
export function asLines(matrices, wide, { peak: top, thresholds, most }) {
  const seen = matrices.map(({ values, hidden }) =>
    Array.from(values, (n, at) => hidden?.[at] || !Number.isFinite(n) ? 0 : n))
  const all = seen.flat(), peak = top ?? (all.reduce((a, b) => Math.max(a, b), 0) || 1)
  const shares = thresholds.map((share) => share * peak), single = Math.fround // they are float32
  const reach = (least) => all.filter((n) => n >= single(least)).length
  const least = (count) => shares.find((share) => reach(share) <= count) ?? peak
  const threshold = least(most.lines), sum = (some) => some.reduce((a, b) => a + b, 0)
  const lost = sum(all.filter((n) => n < single(threshold))) / (sum(all) || 1)
  return {
    peak, threshold, atRest: least(most.atRest), lost,
    sources: matrices.map(({ name }, s) => {
      const cells = [...seen[s].keys()].filter((n) => seen[s][n] >= single(threshold))
      return { name, q: cells.map((n) => Math.floor(n / wide)), k: cells.map((n) => n % wide),
        v: cells.map((n) => seen[s][n]) }
    }),
  }
}

// Say which lines are left out, if any, how thin they are, and their sum.
export function leftOut({ threshold, atRest, lost, quantity, unit = "" }) {
  const short = (number) => `${Number(number.toPrecision(2))}${unit}`
  const share = lost < .0005 ? "<0.1" : (100 * lost).toFixed(1)
  const out = `Lines below ${short(threshold)} are left out: together ${share} % of the total. `
  const few = `While no token is pointed at, only lines from ${short(atRest)} up are drawn. `
  return (lost ? out : "") + (atRest > threshold ? few : "") + `A line's width is its ${quantity}.`
}

// Pixels from token to token: closer in a longer text.
export const pitch = ({ queries }) => queries.length > 64 ? 14 : queries.length > 24 ? 18 : 26

// The height at which a source's lines end at a token: several sources' lines are side by side.
export const middle = (data, n, s) =>
  (n + .5 + (s - (data.sources.length - 1) / 2) / 7) * pitch(data)

// A source's n-th line: as wide, and as strong, as its share of the largest weight.
export function line(data, s, n) {
  const { q, k, v } = data.sources[s], share = Math.min(1, v[n] / data.peak)
  const [a, b] = [middle(data, q[n], s), middle(data, k[n], s)]
  return {
    d: `M0 ${a} C50 ${a} 50 ${b} 100 ${b}`, stroke: data.colors[s],
    "stroke-width": .6 + 6.4 * share, "stroke-opacity": .25 + .7 * share,
    "stroke-dasharray": data.dashes[s], "data-source": s, "data-query": q[n], "data-key": k[n],
  }
}

// A source's lines that end at a token, the strongest first.
export function strongest(source, side, n) {
  const mine = source[side].flatMap((end, m) => end === n ? [m] : [])
  return mine.sort((a, b) => source.v[b] - source.v[a])
}

const across = (side) => side === "q" ? "k" : "q"

const tokenName = ([position, label]) => position === "" ? label : `${position} “${label}”`

// A number with `more` decimals than beside a token; a line's is never 0.
const written = ({ decimals, unit = "" }, number, more = 0) => {
  const least = 10 ** -(decimals + more)
  return (number < least / 2 ? `<${least}` : number.toFixed(decimals + more)) + unit
}

// Describe what a token attends to, or what attends to it: a summary, and a line per source.
export function describeToken(data, side, n) {
  const [mine, , verb] = SIDES[side], [others] = SIDES[across(side)]
  const each = data.sources.map((source) => {
    const matches = strongest(source, side, n), most = matches.slice(0, 4).map((m) =>
      `${tokenName(data[others][source[across(side)][m]])}: ${written(data, source.v[m], 1)}`)
    return (data.sources.length > 1 ? `${source.name}: ` : "")
      + (most.join(", ") || "nothing that is drawn")
      + (matches.length > 4 ? ` and ${matches.length - 4} more` : "")
  })
  return [`${tokenName(data[mine][n])} ${data.ends ? "matches" : verb}`, ...each]
}

// The token that a key leads to, as side and index; null for a key that leads nowhere.
export function step(data, side, n, key) {
  const sideways = { ArrowRight: "k", ArrowLeft: "q" }[key], to = sideways ?? side
  const count = data[SIDES[to][0]].length
  const index = sideways ? Math.min(n, count - 1) : nextIndex(key, n, count)
  return index === undefined ? null : [to, index]
}

const ends = ({ dataset }) => `${dataset.source} ${dataset.query} ${dataset.key}`
const width = (path) => path?.getAttribute("stroke-width") ?? 0

function swell(path, from, to) {
  const widths = [{ strokeWidth: `${from}px` }, { strokeWidth: `${to}px` }]
  return path.animate(widths, { duration: 350, easing: "ease-out" })
}

// The last lines by picture and tokens: the page recreates the view when it changes.
const drawnLast = new Map()

function remember(key, resting) {
  drawnLast.delete(key)
  drawnLast.set(key, new Map([...resting.children].map((path) => [ends(path), path])))
  if (drawnLast.size > 8) drawnLast.delete(drawnLast.keys().next().value)
}

// Animate the previous lines into the current ones: the effect of the mask or an edit on a head.
function move(svg, before) {
  const gone = makeSvg("g", { class: "gone" })
  const now = new Set([...svg.querySelectorAll(".rest path")].map(ends))
  for (const path of svg.querySelectorAll("path")) {
    const from = width(before.get(ends(path)))
    const known = now.has(ends(path)) || from  // otherwise too thin to be drawn at rest
    if (known && from !== width(path)) swell(path, from, width(path))
  }
  for (const [key, path] of before) if (!now.has(key)) {
    gone.append(path)
    swell(path, width(path), 0).onfinish = () => path.remove()
  }
  svg.append(gone)
}

// The legend: each head's colour and dash, if there are several.
function legend({ sources, colors, dashes }) {
  return sources.length < 2 ? [] : sources.map(({ name }, s) => {
    const entry = make("span"), sample = makeSvg("svg", { "aria-hidden": true })
    sample.append(makeSvg("line", { x1: 0, x2: 28, y1: 5, y2: 5, stroke: colors[s],
      "stroke-width": 3, "stroke-dasharray": dashes[s] }))
    entry.append(sample, make("span", null, name))
    return entry
  })
}

// The lines between the sides: those at rest, and those of the token that is hovered over.
function between(data) {
  const height = Math.max(data.queries.length, data.keys.length) * pitch(data)
  const rows = make("div", null, "", "rows")
  rows.style.height = `${height}px`
  const box = { viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", height }
  const svg = makeSvg("svg", { ...box, "aria-hidden": true })
  const resting = makeSvg("g", { class: "rest" }), lit = makeSvg("g", { class: "lit" })
  data.sources.forEach(({ v }, s) => v.forEach((weight, n) => {
    if (weight >= data.atRest) resting.append(makeSvg("path", line(data, s, n)))
  }))
  svg.append(resting, lit)
  rows.append(svg)
  return { rows, svg, resting, lit }
}

function button(view, side, n) {
  const { data } = view, [all, role] = SIDES[side], [position, label] = data[all][n]
  const part = make("button", null, label, side), high = pitch(data)
  part.tabIndex = n === Math.max(0, data.chosen) ? 0 : -1
  part.setAttribute("aria-label", `${role} ${position} ${label}`)
  part.style.cssText = `top:${n * high}px;height:${high}px;` +
    `line-height:${high}px;font-size:${Math.min(13, high - 3)}px`
  part.onpointerenter = part.onfocus = () => point(view, side, n)
  part.onclick = () => (side === "q" || data.ends) && view.send(role, n)
  part.onkeydown = (event) => walk(view, event, side, n)
  return part
}

function walk({ data, buttons }, event, side, n) {
  const next = step(data, side, n, event.key)
  if (!next || isShortcut(event)) return
  event.preventDefault()
  const [to, index] = next
  buttons[to].forEach((part, m) => { part.tabIndex = m === index ? 0 : -1 })
  buttons[to][index].focus()
}

function clear({ svg, lit, rows, summary, data }) {
  svg.classList.remove("pointed")
  lit.replaceChildren()
  rows.querySelectorAll(".numbers").forEach((part) => part.remove())
  rows.querySelectorAll("button").forEach((part) => part.classList.remove("pointed", "linked"))
  summary.replaceChildren(make("div", null, data.hint, "hint"))
}

function point(view, side, n) {
  const { data, svg, lit, rows, summary, buttons } = view, other = across(side), numbers = new Map()
  clear(view)
  svg.classList.add("pointed")
  buttons[side][n].classList.add("pointed")
  data.sources.forEach((source, s) => {
    for (const m of strongest(source, side, n)) {
      lit.append(makeSvg("path", line(data, s, m)))
      const end = source[other][m]
      if (!numbers.has(end)) numbers.set(end, make("div", null, "", "numbers"))
      const number = make("span", null, written(data, source.v[m]))
      number.style.color = data.colors[s]
      number.style.borderBottomStyle = BORDERS[s]
      numbers.get(end).append(number)
    }
  })
  for (const [end, part] of numbers) {
    part.style.cssText = `top:${(end + .5) * pitch(data)}px;` +
      `${side === "q" ? "right" : "left"}:var(--side)`
    buttons[other][end].classList.add("linked")
    rows.append(part)
  }
  summary.replaceChildren(...describeToken(data, side, n).map((text) => make("div", null, text)))
}

// Describe the focused token, or else the chosen one, while nothing is hovered over.
function describeAtRest(view, root) {
  const { buttons, data } = view, focused = root.getRootNode().activeElement
  const side = ["q", "k"].find((name) => buttons[name].includes(focused))
  if (side) point(view, side, buttons[side].indexOf(focused))
  else if (data.chosen >= 0) point(view, "q", data.chosen)
  else clear(view)
}

// Draw `data`, with lines made from its `matrices`. Its `ends`, if any, are titles of sides that
// aren't tokens, both of which can be clicked. Other scripts call this too.
export default function ({ data: sent, parentElement, setTriggerValue: send }) {
  const data = { ...sent, ...asLines(sent.matrices, sent.keys.length, sent) }
  const root = parentElement.querySelector(".view")
  const scroll = root.querySelector(".scroll"), summary = root.querySelector(".summary")
  const old = root.getRootNode().activeElement, top = scroll.scrollTop
  const was = old && scroll.contains(old) ? old.getAttribute("aria-label") : null
  root.setAttribute("aria-label", data.alt)
  summary.style.setProperty("--lines", 1 + data.sources.length)
  root.querySelector(".heads").replaceChildren(...legend(data))

  root.querySelector(".left-out").textContent = leftOut(data)
  if (data.ends) {
    root.classList.add("parts")
    root.querySelector(".left-out").append(` ${data.hint}`)
    root.querySelector(".ends").replaceChildren(...data.ends.map((end) => make("span", null, end)))
  }
  const view = { data, summary, send, buttons: {}, ...between(data) }
  const { rows, svg, resting } = view
  for (const side of ["q", "k"]) {
    view.buttons[side] = data[SIDES[side][0]].map((_, n) => button(view, side, n))
    rows.append(...view.buttons[side])
  }
  rows.onpointerleave = () => describeAtRest(view, root)
  rows.onfocusout = (event) =>
    rows.contains(event.relatedTarget) || setTimeout(describeAtRest, 0, view, root)
  scroll.replaceChildren(rows)
  scroll.scrollTop = top
  describeAtRest(view, root)

  const shown = JSON.stringify([data.shows, data.queries, data.keys]), before = drawnLast.get(shown)
  if (before && !matchMedia("(prefers-reduced-motion: reduce)").matches) move(svg, before)
  remember(shown, resting)
  if (was) [...rows.children].find((part) => part.getAttribute("aria-label") === was)?.focus()
}
