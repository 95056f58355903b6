import assert from "node:assert/strict"
import { test } from "node:test"

import { choose, pending, takePart } from "../../gpt2viz/app/scripts/state.js"
import { part, scrollDistance, tokens } from "../../gpt2viz/app/scripts/choices.js"
import { nextIndex } from "../../gpt2viz/app/scripts/make.js"
import { Part } from "./part.js"

test("arrow keys move between chips and stop at the ends", () => {
  assert.deepEqual(["ArrowRight", "ArrowDown"].map((key) => nextIndex(key, 1, 4)), [2, 2])
  assert.deepEqual(["ArrowLeft", "ArrowUp"].map((key) => nextIndex(key, 1, 4)), [0, 0])
  assert.equal(nextIndex("ArrowRight", 3, 4), 3)
  assert.equal(nextIndex("ArrowLeft", 0, 4), 0)
  assert.deepEqual(["Home", "End"].map((key) => nextIndex(key, 2, 4)), [0, 3])
})

test("other keys don't move", () => {
  for (const key of ["Tab", "Enter", " ", "toString"]) assert.equal(nextIndex(key, 1, 4), undefined)
})

test("a row scrolls as far as the chosen chip needs, clear of the faded edges", () => {
  const at = { left: 100, right: 500 }
  assert.equal(scrollDistance(at, { left: 116, right: 484 }), 0)
  assert.equal(scrollDistance(at, { left: 600, right: 650 }), 166)
  assert.equal(scrollDistance(at, { left: 20, right: 60 }), -96)
  assert.equal(scrollDistance(at, { left: 450, right: 490 }), 6)
})

class Chip extends Part {
  getRootNode() { return focus }
  focus() { focus.activeElement = this }
}

const focus = { activeElement: null }
const at = (search) => ({ search, pathname: "/" })
Object.assign(globalThis, {
  document: { createElement: (tag) => new Chip(tag) },
  ResizeObserver: class { observe() {} },
  location: at(""),
  history: { pushState(_state, _title, to) { globalThis.location = at(to === "/" ? "" : to) } },
})

const DATA = { name: "3 tokens", first: 0, labels: ["a", "<b>", "c"], ids: [7, 8, 9], part: false,
  chosen: null, disabled: false }

function strip(changed = {}) {
  const view = new Chip("div"), sent = []
  const drawn = { parentElement: { querySelector: () => view },
    setTriggerValue: (...what) => sent.push(what) }
  const again = (more) => tokens.default({ ...drawn, data: { ...DATA, ...changed, ...more } })
  again()
  return { view, sent, again }
}

const pressed = ({ children }) =>
  children.filter((chip) => chip.attributes["aria-checked"]).map(({ value }) => value)
const reachable = ({ children }) =>
  children.filter(({ tabIndex }) => tabIndex === 0).map(({ value }) => value)

test("a click sends a chip to the server, and a second click unselects it", () => {
  const { view, sent, again } = strip()
  assert.deepEqual(view.children.map((chip) => chip.children[0].textContent), ["a ", "<b> ", "c "])
  assert.ok(view.children.every(({ type }) => type === "button"), "none submits a form")
  view.children[2].onclick()
  assert.deepEqual(pressed(view), ["2"])
  again({ chosen: 2 })
  assert.deepEqual(pressed(view), ["2"])
  view.children[2].onclick()
  assert.deepEqual(pressed(view), [])
  assert.deepEqual(sent, [["query", 2], ["query", -1]])
})

test("if scripts can draw the choice, it goes into the address and not to the server", () => {
  const { view, sent, again } = strip()
  const page = new Chip("div")
  takePart(page, { offers: (changes) => Object.keys(changes).join() === "query" })
  view.children[1].onclick()
  assert.equal(globalThis.location.search, "?query=1")
  assert.deepEqual(pressed(view), ["1"])
  again()
  assert.deepEqual(pressed(view), ["1"], "what was chosen here holds")
  view.children[1].onclick()
  assert.deepEqual([globalThis.location.search, pressed(view)], ["", []])
  choose({ query: "2" })
  assert.deepEqual(pressed(view), ["2"], "chosen elsewhere on the page")
  choose({ query: null })
  assert.deepEqual(sent, [])
  pending().clear()
  page.isConnected = view.isConnected = false
})

test("a part of a long text counts from its first token and sends the choice", () => {
  const page = new Chip("div")
  takePart(page, { offers: () => true })
  const { view, sent } = strip({ first: 128, part: true, chosen: 300 })
  assert.deepEqual(pressed(view), [])
  view.children[1].onclick()
  assert.deepEqual(sent, [["query", 129]])
  assert.equal(view.children[1].children[0].children[0].textContent, "position 129, id 8")
  page.isConnected = view.isConnected = false
})

test("keys move the focus but not the choice, and Tab reaches one chip", () => {
  const { view, sent } = strip({ chosen: 1 })
  assert.deepEqual(reachable(view), ["1"])
  view.children[1].focus()
  const key = (name, more) => view.onkeydown({ key: name, preventDefault() {}, ...more })
  key("End")
  assert.equal(focus.activeElement, view.children[2])
  view.onfocusin({ target: view.children[2] })
  assert.deepEqual([reachable(view), pressed(view), sent], [["2"], ["1"], []])
  key("ArrowLeft", { altKey: true })
  assert.equal(focus.activeElement, view.children[2], "Alt+Left is the browser's own Back")
})

test("if no chip can be chosen, the strip itself can be focused", () => {
  const { view, again } = strip({ disabled: true })
  assert.ok(view.children.every((chip) => chip.disabled))
  assert.equal(view.tabIndex, 0)
  again({ disabled: false })
  assert.equal(view.tabIndex, -1)
})

test("chips are kept while the tokens are the same", () => {
  const { view, again } = strip(), [first] = view.children
  again({ chosen: 1 })
  assert.equal(view.children[0], first)
  again({ labels: ["d", "e"], ids: [1, 2] })
  assert.deepEqual(view.children.map((chip) => chip.children[0].textContent), ["d ", "e "])
})

test("few chips may take two lines, many scroll in one", () => {
  assert.ok(strip().view.classes.has("few"))
  const many = Array(21).fill("a")
  assert.ok(!strip({ labels: many, ids: many }).view.classes.has("few"))
})

const NOTE = { part: null, end: 10, here: true, lead: "Only a part is shown",
  rest: "of 10 tokens." }

let sent

// A note in a page, with as much of both as the script uses.
function line() {
  sent = []
  delete globalThis.gpt2viz_state
  Object.assign(globalThis, {
    document: { createElement: () => ({}) }, location: { search: "", pathname: "/" },
    history: { pushState: (_state, _title, to) => {
      globalThis.location.search = to.startsWith("?") ? to : ""
    } },
    PopStateEvent: Event, dispatchEvent: () => sent.push("popstate"),
  })
  takePart({ isConnected: true }, { offers: () => true })
  const note = { replaceChildren: (bold, rest) => { note.text = bold.textContent + rest } }
  const root = { children: [note, {}], dataset: {}, isConnected: true, room: { shown: false } }
  const room = { toggleAttribute: (_name, shown) => { room.shown = shown } }
  const parentElement = { querySelector: () => root,
    getRootNode: () => ({ host: { closest: () => room } }) }
  const show = (data) => part.default({ data: { ...NOTE, ...data }, parentElement,
    setTriggerValue: (...what) => sent.push(what) })
  return { root, note, room, show, press: () => root.children[1].onclick() }
}

test("a part is named, with a button for the whole; the whole has no note", () => {
  const { root, note, room, show } = line()
  show({})
  assert.deepEqual([root.hidden, room.shown], [true, false])
  show({ part: [2, 5, 0, 10] })
  assert.deepEqual([root.hidden, room.shown], [false, true])
  assert.equal(note.text, "Only a part is shown: queries 2 to 4, keys 0 to 9 of 10 tokens.")
  assert.equal(root.dataset.here, "")
})

test("a part chosen in the browser is named at once, and stays when the server draws", () => {
  const { root, note, show } = line()
  show({})
  choose({ zoom: "2,3,0,1" })
  assert.equal(note.text, "Only a part is shown: queries 2, keys 0 of 10 tokens.")
  choose({ query: "1" })
  show({})
  assert.deepEqual([root.hidden, sent], [false, []])
})

test("the browser returns to the whole without the server", () => {
  const { root, show, press } = line()
  globalThis.location.search = "?zoom=2%2C5%2C0%2C10&layer=1"
  show({ part: [2, 5, 0, 10] })
  press()
  assert.deepEqual([root.hidden, globalThis.location.search, sent], [true, "?layer=1", []])
})

test("the server gets the request if only it can draw the whole", async () => {
  for (const only of ["long", "lines"]) {
    const { root, show, press } = line()
    sent = []
    show({ part: [2, 5, 0, 10], here: only !== "long" })
    if (only === "lines") takePart({ isConnected: true }, { offers: () => false })
    press()
    assert.deepEqual([root.hidden, sent], [false, [["whole", true]]])
  }
})
