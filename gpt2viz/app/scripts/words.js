// The sentence as large words: arcs from a word to those that it attends to in a head, and at the
// end what comes next, with arcs to the words that it comes from.

import { tokens } from "./choices.js"
import { weightsOf } from "./head_picture.js"
import { make, makeSvg } from "./make.js"
import { zoomOf } from "./matrix.js"
import { current, point, sender, takePart } from "./state.js"

export const html = `
<div class="words" data-here="">
  <svg aria-hidden="true"></svg>
  ${tokens.html}
  <span class="next" role="group" aria-label="What comes next"></span>
  <p class="route" aria-live="polite"></p>
</div>
`

// Smaller weights have no arc, and no word has more arcs than this.
const LEAST = .05, MOST = 6

// Words whose edges are farther apart, in CSS pixels, stand in different lines.
const LINE = 12

// The height of the room above the first line, in CSS pixels: see .words in style.css.
const ROOM = 76

/** The keys that a query of the chosen head gives most weight: [key, weight], the largest first. */
export function strongest({ arcs, n_head: n, n_tokens: size }, weights, { layer, head, query }) {
  if (!weights) return arcs[query] ?? []
  const start = ((layer * n + head) * size + query) * size
  const row = weights.subarray(start, start + size)
  return [...row.entries()].filter(([, weight]) => weight >= LEAST)
    .sort((a, b) => b[1] - a[1]).slice(0, MOST)
}

/** The line from one word to another, from the middles of their upper edges. Within a line it is an
 * arc, as high as it is far; `rank` sets apart those that would coincide.
 *
 * @param {number[]} from @param {number[]} to */
export function arc([x1, y1], [x2, y2], room, rank = 0) {
  const far = Math.abs(x2 - x1), high = Math.min(room - 18, 16 + far * .28) - 7 * rank
  if (Math.abs(y2 - y1) > LINE)
    return { path: `M${x1} ${y1}Q${x1} ${(y1 + y2) / 2} ${x2} ${y2}`, top: [(x1 + x2) / 2,
      (y1 + y2) / 2] }
  const [left, right] = far < 2 ? [x1 - 14, x2 + 14] : [x1, x2], y = y1 - high * 4 / 3
  return { path: `M${x1} ${y1}C${left} ${y} ${right} ${y} ${x2} ${y2}`,
    top: [(x1 + x2) / 2, y1 - high] }
}

// A label starts with a dot for its space; as a word it stands apart instead, but for a lone space.
const SPACED = /^(\u2068?)·(?=[^\u2069])/

/** A token's label as a word. */
export const bare = (label) => label.replace(SPACED, "$1")

// What is shown: a word with its head, or one of the next tokens.
function shownNow(view) {
  const { p, at, pinned } = view, next = at ? at.next : pinned
  if (next !== undefined) return { next }
  const of = (name) => Number(at?.[name] ?? current(name, p[name]))
  const query = at?.query ?? current("query", p.chosen) ?? p.n_tokens - 1
  return { layer: of("layer"), head: of("head"), query: Number(query) }
}

/** The words whose cells raise a next token's logit: each with its share of the largest cell. */
export function raising({ cells }) {
  const most = Math.max(...cells.map((cell) => cell[3]))
  return cells.filter((cell) => cell[3] > 0).map(([layer, head, key, value]) =>
    ({ key, share: value / most, label: `${layer}.${head}` }))
}

// The words that the arcs lead to: each with its place among the tokens, its share and its label.
function ends({ p }, shown) {
  if (shown.next !== undefined) return raising(p.next[shown.next])
  const weights = weightsOf(p.numbers)
  if (!weights && (shown.layer !== p.layer || shown.head !== p.head)) return []
  return strongest(p, weights, shown).map(([key, share]) =>
    ({ key, share, label: share.toFixed(2) }))
}

/** The size of the words' letters, in pixels: as large as a line holds them all, within bounds. */
export const fontSize = (labels, width) =>
  Math.min(36, Math.max(16, width / (labels.join(" ").length + 24) / .5))

function draw(view, moves = false) {
  const { p, svg, chips, next } = view, shown = shownNow(view)
  view.style.fontSize = `${fontSize(p.labels, view.clientWidth)}px`
  const box = view.getBoundingClientRect()
  const words = [...chips.children], top = (element) => {
    const { left, width, top: y } = element.getBoundingClientRect()
    return [left + width / 2 - box.left, y - box.top + 2].map((length) => length / zoomOf(view))
  }
  const from = shown.next === undefined ? words[shown.query - p.first]
    : next.querySelectorAll("button")[shown.next]
  svg.replaceChildren()
  view.classList.toggle("comes", shown.next !== undefined)
  svg.classList.toggle("moves", moves)
  svg.setAttribute("height", view.clientHeight)
  for (const word of words) word.style.background = ""
  for (const button of next.querySelectorAll("button"))
    button.setAttribute("aria-pressed", button === from)
  if (!from) return
  const listed = ends(view, shown)
  for (const [n, { key, share, label }] of [...listed.entries()].toReversed()) {
    const word = words[key - p.first]
    const rank = listed.slice(0, n).filter((other) => other.key === key).length
    if (!word) continue
    const { path, top: [x, y] } = arc(top(from), top(word), ROOM, rank)
    word.style.background = `color-mix(in srgb, var(--arc) ${35 * share}%, transparent)`
    makeSvg("path", { d: path, pathLength: 1, "stroke-width": 1 + 8 * share,
      opacity: .35 + .6 * share }, svg)
    if (share < .1 || rank) continue
    makeSvg("text", { x, y: y - 3 }, svg).textContent = label
  }
  route(view, shown.next)
}

// The sum of what raises or lowers a next token: of the likeliest if none is shown.
function route(view, next = 0) {
  const { p, line } = view
  if (!p.next.length) return line.replaceChildren()
  const { cells, rest, logit } = p.next[next], label = bare(p.next[next].label)
  const buttons = cells.map(([layer, head, key, value]) => {
    const word = bare(p.labels[key - p.first] ?? `${key}`), at = `${layer}.${head}`
    const button = make("button", null, `${word} through head ${at}: ${signed(value)}`)
    return Object.assign(button, { type: "button",
      onclick: () => view.send("open", `${at}.${key}`) })
  })
  line.replaceChildren("What raises or lowers ", make("b", null, label), ": ", ...buttons,
    `all else ${signed(rest)}, logit ${signed(logit)}`)
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(1)}`

function pointAt(view, at) {
  if (JSON.stringify(view.at) === JSON.stringify(at)) return
  view.at = at
  draw(view)
  point({ query: at?.query ?? null }, view)
}

function listen(view) {
  const { chips, next } = view
  const chipOf = ({ target }) => target.closest?.("button")
  const word = (event) => chipOf(event) && pointAt(view, { query: Number(chipOf(event).value) })
  const away = () => pointAt(view, null)
  Object.assign(chips, { onpointerover: word, onpointerleave: away })
  chips.addEventListener("focusin", (event) =>
    event.target.matches(":focus-visible") && word(event))
  const answer = (event) => chipOf(event) &&
    pointAt(view, { next: [...next.querySelectorAll("button")].indexOf(chipOf(event)) })
  Object.assign(next, { onpointerover: answer, onpointerleave: away })
  next.addEventListener("focusin", answer)
  view.addEventListener("focusout", away)
  new ResizeObserver(() => draw(view)).observe(view)
}

function offerNext(view) {
  const { p, next } = view
  next.replaceChildren()
  for (const { label, percent } of p.before) make("s", next, `${bare(label)} ${percent}`)
  p.next.forEach(({ label, percent }, n) => {
    const button = make("button", next)
    make("b", button, bare(label))
    button.append(` ${percent}`)
    Object.assign(button, { type: "button", onclick: () => {
      view.pinned = view.pinned === n ? undefined : n
      view.at = null
      draw(view, true)
    } })
  })
}

export default function ({ data: p, parentElement, setTriggerValue }) {
  const view = parentElement.querySelector(".words"), known = view.p
  Object.assign(view, { p, send: sender(setTriggerValue) })
  if (!known) {
    for (const [name, tag] of Object.entries({ svg: "svg", chips: ".chips", next: ".next",
      line: ".route" })) view[name] = view.querySelector(tag)
    listen(view)
  }
  const labels = p.labels.map(bare)
  tokens.default({ data: { ...p, labels }, parentElement: view, setTriggerValue })
  p.labels.forEach((label, n) =>
    view.chips.children[n].classList.toggle("joined", !SPACED.test(label)))
  Object.assign(view, { at: null, pinned: undefined })
  offerNext(view)
  takePart(view, {
    offers: (changes) =>
      "layer" in changes || "head" in changes ? Boolean(weightsOf(p.numbers)) : undefined,
    changed: () => {
      view.pinned = undefined
      draw(view, true)
    },
    pointed: (at) => {
      view.at = at.query === null ? null : at
      draw(view)
    },
  })
  draw(view, true)
  if (document.fonts.status !== "loaded") document.fonts.ready.then(() => draw(view))
}
