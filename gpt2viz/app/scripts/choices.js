// Choices about a sentence: a token among its chips, matrices or lines, and the part that is shown.
// If the page's scripts can draw the result, no request is sent to the server.

import { make, walkList } from "./make.js"
import { formatPart, parsePart, partInWords } from "./matrices.js"
import { choose, current, sender, takePart } from "./state.js"

const CHIPS = '<div class="chips" role="radiogroup"></div>'

// More chips than this are in one line, which scrolls; fewer may take two.
const ONE_LINE = 20

// The width of the shade over an end of a line that continues: see .before in style.css.
const SHADE = 16

// Sent to the server for no token: null isn't sent.
const NONE = -1

// How far a line has to scroll to show a chip clear of the shades.
export function scrollDistance(line, chip) {
  const before = chip.left - line.left - SHADE, after = chip.right - line.right + SHADE
  return before < 0 ? before : Math.max(after, 0)
}

function focused(view) {
  const { activeElement } = view.getRootNode()
  return [...view.children].find((chip) => chip === activeElement)
}

// Make one chip reachable by Tab; arrow keys lead from it to the others.
function makeReachable(view, at) {
  for (const chip of view.children) chip.tabIndex = chip === at ? 0 : -1
}

function shade(view) {
  const { scrollLeft, scrollWidth, clientWidth } = view
  view.style.setProperty("--scrolled", `${scrollLeft}px`) // fixed elements don't scroll along
  view.classList.toggle("before", scrollLeft > 1)
  view.classList.toggle("after", scrollWidth - clientWidth - scrollLeft > 1)
}

function mark(view, query) {
  const changes = query !== view.query, chips = [...view.children], at = focused(view)
  view.query = query
  for (const chip of chips) chip.setAttribute("aria-checked", chip.value === query)
  const on = chips.find((chip) => chip.value === query)
  makeReachable(view, at ?? on ?? chips[0])
  if (changes && on && (!at || at === on)) reveal(view, on)
  shade(view)
}

function reveal(view, chip) {
  view.scrollLeft += scrollDistance(view.getBoundingClientRect(), chip.getBoundingClientRect())
}

// The strip has its width only once the page is laid out.
function resized(view) {
  const on = [...view.children].find((chip) => chip.value === view.query)
  if (on) reveal(view, on)
  shade(view)
}

function chooseToken(view, value) {
  const query = value === view.query ? null : value
  if (choose({ query }, { query: view.drawn })) return
  mark(view, query)
  view.send("query", query === null ? NONE : Number(query))
}

function fill(view, { first, labels, ids }) {
  view.replaceChildren()
  labels.forEach((label, n) => {
    const chip = make("button", view), value = String(first + n)
    const token = make("span", chip, `${label} `, "token")
    make("span", token, `position ${value}, id ${ids[n]}`, "details")
    Object.assign(chip, { value, onclick: () => chooseToken(view, value) })
    chip.setAttribute("role", "radio")
  })
  view.classList.toggle("few", labels.length <= ONE_LINE)
  view.query = undefined
}

function begin(view) {
  view.dataset.here = ""
  view.onkeydown = (event) => walkList(event, [...view.children], focused(view))
  view.addEventListener("focusin", ({ target }) => target !== view && makeReachable(view, target))
  view.onscroll = () => shade(view)
  new ResizeObserver(() => resized(view)).observe(view)
}

function drawChips({ data, parentElement, setTriggerValue }) {
  const view = parentElement.querySelector(".chips")
  const { name, first, labels, ids, part, chosen, disabled } = data
  const tokens = JSON.stringify([first, labels, ids]), drawn = chosen === null ? null : `${chosen}`
  if (!view.tokens) begin(view)
  if (view.tokens !== tokens) fill(view, data)
  Object.assign(view, { tokens, drawn, send: sender(setTriggerValue) })
  view.setAttribute("aria-label", name)
  view.setAttribute("aria-disabled", disabled)
  view.tabIndex = disabled ? 0 : -1 // to scroll a strip of disabled chips with the keyboard
  for (const chip of view.children) chip.disabled = disabled
  takePart(view, {
    offers: (changes) => "query" in changes && part ? false : undefined, // the part follows
    changed: (changes) => "query" in changes && mark(view, changes.query),
  })
  mark(view, current("query", drawn))
}

const SWITCH = '<div class="switch" role="radiogroup" aria-label="Picture"></div>'

function choosePicture({ drawn, send }, name) {
  if (!choose({ picture: name }, { picture: drawn })) send("picture", name)
}

function press(view, name) {
  for (const input of view.querySelectorAll("input")) input.checked = input.value === name
}

function drawSwitch({ data, parentElement, setTriggerValue }) {
  const view = parentElement.querySelector(".switch"), known = view.children.length
  view.dataset.here = ""
  Object.assign(view, { drawn: data.chosen, send: sender(setTriggerValue) })
  if (!known) {
    for (const [value, label] of Object.entries(data.names))
      Object.assign(make("input", make("label", view, label)),
        { type: "radio", name: "picture", value, onchange: () => choosePicture(view, value) })
  }
  takePart(view, { changed: (changes) => changes.picture && press(view, changes.picture) })
  for (const input of view.querySelectorAll("input")) input.disabled = data.disabled
  press(view, current("picture", data.chosen))
}

const PART =
  '<div class="part" hidden><span></span><button>Show the whole text</button></div>'

function showPart(root, chosen) {
  const { lead, rest, end } = root.data, part = parsePart(chosen, end)
  root.hidden = !part
  root.room?.toggleAttribute("data-shown", Boolean(part))
  const [text] = root.children
  text.replaceChildren(make("b", null, lead), part ? `: ${partInWords(part)} ${rest}` : "")
}

function showWhole(root) {
  if (!root.data.here || !choose({ zoom: null })) root.send("whole", true)
}

function drawPart({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".part"), known = root.data
  root.data = data
  root.send = sender(setTriggerValue)
  if (!known) {
    root.dataset.here = ""
    root.room = parentElement.getRootNode().host?.closest(".st-key-part_note")
    root.children[1].onclick = () => showWhole(root)
  }
  takePart(root, { changed: (changes) => "zoom" in changes && showPart(root, changes.zoom) })
  showPart(root, current("zoom", formatPart(data.part)))
}

export const tokens = { default: drawChips, html: CHIPS }
export const picture = { default: drawSwitch, html: SWITCH }
export const part = { default: drawPart, html: PART }
