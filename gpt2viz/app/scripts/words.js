// The sentence as large words: arcs from a word to those that it attends to in a head, and at the
// end the next tokens, with arcs to the words that they come from.

import { tokens } from "./choices.js"
import { awaitWeights, strongestQuery, weightsOf } from "./head_picture.js"
import { make, makeSvg } from "./make.js"
import { zoomOf } from "./matrix.js"
import { current, point, sender, takePart } from "./state.js"

export const html = `
<div class="words" data-here="">
  <svg aria-hidden="true"></svg>
  ${tokens.html}
  <span class="next" role="group" aria-label="What comes next"></span>
  <div class="route" aria-live="polite"></div>
</div>
`

// Smaller weights have no arc, and no word has more arcs than this.
const LEAST = .05, MOST = 6

// Words whose edges are farther apart than this, in CSS pixels, are in different lines.
const LINE = 12

// The height of the room above the first line, in CSS pixels: see .words in style.css.
const ROOM = 76

// The keys of a query of the chosen head, with their weights.
function linksOf({ arcs, first = 0, n_head: n, n_tokens: size }, weights, { layer, head }, query) {
  const start = ((layer * n + head) * size + query) * size
  return weights ? [...weights.subarray(start, start + size).entries()] : arcs[query - first] ?? []
}

/** The strongest keys of a query in the chosen head: [key, weight], the largest first. */
export function strongest(p, weights, at) {
  return linksOf(p, weights, at, at.query).filter(([, weight]) => weight >= LEAST)
    .sort((a, b) => b[1] - a[1]).slice(0, MOST)
}

/** The line from one word to another, between the middles of their upper edges. Within a line of
 * text it is an arc, higher the farther they are apart. Below the `first` line it runs over words:
 * then it is faint and has no label.
 *
 * @param {number[]} from @param {number[]} to */
export function arc([x1, y1], [x2, y2], room, first = y1) {
  const far = Math.abs(x2 - x1), loops = far < 2 // wide enough to be seen as a ring
  const high = loops ? 22 : Math.min(room - 18, 16 + far * .28)
  const faint = Math.max(y1, y2) > first + LINE ? .4 : 1
  if (Math.abs(y2 - y1) > LINE)
    return { path: `M${x1} ${y1}Q${x1} ${(y1 + y2) / 2} ${x2} ${y2}`, faint }
  const [left, right] = loops ? [x1 - 36, x2 + 36] : [x1, x2], y = y1 - high * 4 / 3
  return { path: `M${x1} ${y1}C${left} ${y} ${right} ${y} ${x2} ${y2}`, faint,
    top: faint < 1 ? undefined : [(x1 + x2) / 2, y1 - high] }
}

// A label starts with a dot for its space; words are spaced instead, except for a lone space.
const SPACED = /^(\u2068?)·(?=[^\u2069 ])/

/** A token's label as a word. */
export const bare = (label) => label.replace(SPACED, "$1")

/** The labels of the next tokens as words, with their dots if two would read the same. */
export const nextWords = ({ next }) => next.map(({ label }) =>
  next.some((other) => other.label !== label && bare(other.label) === bare(label)) ? label
    : bare(label))

// The shown state: a word with its head, or one of the next tokens.
function shownNow(view) {
  const { p, at, pinned } = view, next = at ? at.next : pinned
  if (next !== undefined) return { next }
  const numberOf = (name) => Number(at?.[name] ?? current(name, p[name]))
  const layer = numberOf("layer"), head = numberOf("head")
  const weights = weightsOf(p.numbers)
  const links = (query) => linksOf(p, weights, { layer, head }, query)
  const query = at?.query ?? current("query", p.chosen) ??
    (weights ? strongestQuery(p.n_tokens, links) : p.strongest)
  return { layer, head, query: Number(query ?? p.n_tokens - 1) }
}

/** The words that raise a next token's logit, each relative to the largest. */
export function raising({ words }) {
  const most = Math.max(...words.map(({ value }) => value))
  return words.filter(({ value }) => value > 0).map(({ key, value }) =>
    ({ key, share: value / most }))
}

// The words that the arcs lead to: each with its index among the tokens, its share, and a label if
// no line of text below gives its number.
function ends({ p }, shown) {
  if (shown.next !== undefined) return raising(p.next[shown.next])
  const weights = weightsOf(p.numbers)
  if (!weights && (shown.layer !== p.layer || shown.head !== p.head)) return []
  return strongest(p, weights, shown).map(([key, share]) =>
    ({ key, share, label: share < .1 ? "" : share.toFixed(2) }))
}

/** The font size of the words, in pixels: the largest, within bounds, at which they fit a line. */
export const fontSize = (labels, width) =>
  Math.min(36, Math.max(16, width / (labels.join(" ").length + 24) / .5))

function draw(view, moves = false) {
  const { p, svg, chips, next } = view, shown = shownNow(view)
  view.wide = view.clientWidth
  view.style.fontSize = `${fontSize(p.labels, view.wide)}px`
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
  for (const word of words) word.style.background = ""
  for (const word of next.querySelectorAll("button"))
    word.setAttribute("aria-pressed", word === from)
  route(view, shown.next)
  if (!from) return
  // All are measured before any is drawn: otherwise the browser would lay out the page for each.
  const start = top(from), arcs = ends(view, shown).toReversed()
    .map(({ key, ...end }) => ({ ...end, word: words[key - p.first] })).filter(({ word }) => word)
    .map((end) => ({ ...end, ...arc(start, top(end.word), ROOM, top(words[0])[1]) }))
  for (const { word, share, label, path, top: at, faint } of arcs) {
    word.style.background = `color-mix(in srgb, var(--arc) ${35 * share}%, transparent)`
    const width = 1 + 8 * share, above = 2 + width / 2
    makeSvg("path", { d: path, pathLength: 1, "stroke-width": width,
      opacity: faint * (.35 + .6 * share) }, svg)
    if (label && at) makeSvg("text", { x: at[0], y: at[1] - above }, svg).textContent = label
  }
  svg.append(...svg.querySelectorAll("text")) // over all arcs
}

const LOGIT = "A logit is a word's score before softmax: one more makes the word 2.7 times as " +
  "likely against any other. It is the sum of what each word brings through the heads, of the " +
  "MLPs, which work on each word alone, and of all else: embeddings and biases."

// Show the contributions to a next token's logit, of the likeliest if none is shown; or those of
// one word, by head.
function route(view, next = 0) {
  const { p, line } = view
  if (!p.next.length) return line.replaceChildren()
  const { words, others, mlps, rest, logit } = p.next[next]
  const opened = words.find(({ key }) => key === view.opened)
  const buttons = (opened ? [opened] : words).map((word) => {
    const toggle = button(`${bare(word.name)} ${signed(word.value)}`, () => {
      view.opened = opened ? undefined : word.key
      route(view, next)
      line.querySelector("button").focus()
    })
    toggle.setAttribute("aria-expanded", word === opened)
    return toggle
  })
  if (opened) return line.replaceChildren(...buttons, ...listHeads(view, opened))
  const tip = button(`MLPs ${signed(mlps)}, all else ${signed(rest)}: logit ${signed(logit)}`)
  make("span", tip, LOGIT, "tip")
  const more = p.n_tokens > words.length ? `other words ${signed(others)}, ` : ""
  line.replaceChildren("What raises or lowers ", make("b", null, `“${nextWords(p)[next]}”`), ": ",
    ...buttons, more, tip)
}

// List the heads of a word's contribution, each a button that opens its cell, and the others' sum.
function listHeads(view, { key, value, heads }) {
  const buttons = heads.map(([layer, head, part]) =>
    button(`head ${layer}.${head} ${signed(part)}`,
      () => view.send("open", `${layer}.${head}.${key}`)))
  const others = heads.reduce((left, [, , part]) => left - part, value)
  return ["through ", ...buttons, `all other heads ${signed(others)}`]
}

const button = (text, onclick) => Object.assign(make("button", null, text), { onclick })

/** A number with its sign, but none if it rounds to 0: that neither raises nor lowers. */
export const signed = (value) =>
  (value >= .05 ? "+" : "") + value.toFixed(1).replace("-", value > -.05 ? "" : "−")

function pointAt(view, at) {
  if (JSON.stringify(view.at) === JSON.stringify(at)) return
  view.at = at
  draw(view)
  point({ query: at?.query ?? null }, view)
}

function listen(view) {
  const { chips, next, line } = view
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
  const leave = ({ target, relatedTarget }) => // moving to the line that explains a guess keeps it
    line.contains(relatedTarget ?? (line.contains(target) ? target : null)) || away()
  for (const part of [chips, next, line]) part.addEventListener("focusout", leave)
  new ResizeObserver(() => view.clientWidth !== view.wide && draw(view)).observe(view)
}

function offerNext(view) {
  const { p, next } = view
  next.replaceChildren()
  next.dataset.gap = p.first + p.labels.length < p.n_tokens ? "… " : ""
  for (const { label, percent } of p.before) make("s", next, `${bare(label)} ${percent}`)
  nextWords(p).forEach((name, n) => {
    const word = button("", () => {
      view.pinned = view.pinned === n ? undefined : n
      view.at = null
      draw(view, true)
    })
    make("b", word, name)
    word.append(` ${p.next[n].percent}`)
    next.append(word)
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
  Object.assign(view, { at: null, pinned: undefined, opened: undefined })
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
  awaitWeights(() => weightsOf(view.p.numbers) && draw(view, true))
  if (document.fonts.status !== "loaded") document.fonts.ready.then(() => draw(view))
}
