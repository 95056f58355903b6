// The tokens of a sentence as chips, of which one can be chosen. Where the page's scripts draw what
// comes of that, the server isn't asked.

import {
  chooseHere, drawnHere, holds, leftToServer, offeredHere, sender, whenChosen,
} from "./chosen.js"
import { make } from "./make.js"

export const html = '<div class="chips" role="radiogroup"></div>'

// More chips than this stay in one line, which scrolls; fewer may take two.
const ONE_LINE = 20

// The width of the shade at an end of the line that hides something: see token_chips.css.
const SHADE = 16

// What the server is sent for no token: it hears of no null.
const NONE = -1

const KEYS = {
  ArrowLeft: (n) => n - 1, ArrowUp: (n) => n - 1, ArrowRight: (n) => n + 1,
  ArrowDown: (n) => n + 1, Home: () => 0, End: () => Infinity,
}

// Which of so many chips a key leads to from the n-th; undefined for a key that leads nowhere.
export const reached = (count, n, key) =>
  Object.hasOwn(KEYS, key) ? Math.min(Math.max(KEYS[key](n), 0), count - 1) : undefined

// How far a line has to be scrolled for a chip to be in sight, clear of the shades.
export function away(line, chip) {
  const before = chip.left - line.left - SHADE, after = chip.right - line.right + SHADE
  return before < 0 ? before : Math.max(after, 0)
}

function focused(view) {
  const { activeElement } = view.getRootNode()
  return [...view.children].find((chip) => chip === activeElement)
}

// Tab leads to one chip, the keys from that to the others.
function stop(view, at) {
  for (const chip of view.children) chip.tabIndex = chip === at ? 0 : -1
}

function shade(view) {
  const { scrollLeft, scrollWidth, clientWidth } = view
  view.style.setProperty("--scrolled", `${scrollLeft}px`) // what is fixed doesn't go along
  view.classList.toggle("before", scrollLeft > 1)
  view.classList.toggle("after", scrollWidth - clientWidth - scrollLeft > 1)
}

function press(view, query) {
  const changes = query !== view.query, chips = [...view.children], at = focused(view)
  view.query = query
  for (const chip of chips) chip.setAttribute("aria-checked", chip.value === query)
  const on = chips.find((chip) => chip.value === query)
  stop(view, at ?? on ?? chips[0])
  if (changes && on && (!at || at === on)) reveal(view, on)
  shade(view)
}

function reveal(view, chip) {
  view.scrollLeft += away(view.getBoundingClientRect(), chip.getBoundingClientRect())
}

// The strip is as wide as it will be only once the page is laid out.
function resized(view) {
  const on = [...view.children].find((chip) => chip.value === view.query)
  if (on) reveal(view, on)
  shade(view)
}

function choose(view, place) {
  const query = place === view.query ? null : place, changes = { query }
  if (offeredHere(changes) && drawnHere("query")) return chooseHere(changes, { query: view.drawn })
  press(view, query)
  view.send("query", query === null ? NONE : Number(query))
}

function walk(view, event) {
  const chips = [...view.children], from = chips.indexOf(focused(view))
  const to = reached(chips.length, from, event.key)
  if (from < 0 || to === undefined || event.altKey || event.ctrlKey || event.metaKey) return
  event.preventDefault()
  chips[to].focus()
}

function fill(view, { first, labels, ids }) {
  view.replaceChildren()
  labels.forEach((label, n) => {
    const chip = make("button", view), value = String(first + n)
    const token = make("span", chip, `${label} `, "token")
    make("span", token, `position ${value}, id ${ids[n]}`, "told")
    Object.assign(chip, { type: "button", value, onclick: () => choose(view, value) })
    chip.setAttribute("role", "radio")
  })
  view.classList.toggle("few", labels.length <= ONE_LINE)
  view.query = undefined
}

function begin(view) {
  view.dataset.here = ""
  view.onkeydown = (event) => walk(view, event)
  view.addEventListener("focusin", ({ target }) => target !== view && stop(view, target))
  view.onscroll = () => shade(view)
  new ResizeObserver(() => resized(view)).observe(view)
  whenChosen(view, (changes) => "query" in changes && press(view, changes.query))
}

export default function ({ data, parentElement, setTriggerValue }) {
  const view = parentElement.querySelector(".chips")
  const { name, first, labels, ids, part, chosen, disabled } = data
  const tokens = JSON.stringify([first, labels, ids]), drawn = chosen === null ? null : `${chosen}`
  if (!view.tokens) begin(view)
  if (view.tokens !== tokens) fill(view, data)
  Object.assign(view, { tokens, drawn, send: sender(setTriggerValue) })
  view.setAttribute("aria-label", name)
  view.setAttribute("aria-disabled", disabled)
  view.tabIndex = disabled ? 0 : -1 // many scroll: where none can be reached, the strip can
  for (const chip of view.children) chip.disabled = disabled
  leftToServer(view, part ? ["query"] : []) // which part is shown follows what is chosen
  press(view, holds("query", drawn))
}
