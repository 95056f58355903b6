import assert from "node:assert/strict"
import { beforeEach, test } from "node:test"

import draw from "../../gpt2viz/app/scripts/part_note.js"
import { chooseHere, leftToServer } from "../../gpt2viz/app/scripts/chosen.js"

const DATA = { part: null, end: 10, here: true, lead: "Only a part is shown", of: "of 10 tokens." }

let sent

// A line in a page, as much of both as it asks for.
function line() {
  const said = { replaceChildren: (bold, text) => { said.text = bold.textContent + text } }
  const root = { children: [said, {}], dataset: {}, isConnected: true, room: { shown: false } }
  const room = { toggleAttribute: (_name, shown) => { room.shown = shown } }
  const parentElement = { querySelector: () => root,
    getRootNode: () => ({ host: { closest: () => room } }) }
  const show = (data) => draw({ data: { ...DATA, ...data }, parentElement,
    setTriggerValue: (...what) => sent.push(what) })
  return { root, said, room, show, press: () => root.children[1].onclick() }
}

beforeEach(() => {
  sent = []
  delete globalThis.gpt2viz_chosen
  Object.assign(globalThis, {
    document: { createElement: () => ({}) }, location: { search: "", pathname: "/" },
    history: { pushState: (_state, _title, to) => {
      globalThis.location.search = to.startsWith("?") ? to : ""
    } },
    PopStateEvent: Event, dispatchEvent: () => sent.push("told"),
  })
})

test("a part is named, with the way back; nothing is said of the whole", () => {
  const { root, said, room, show } = line()
  show({})
  assert.deepEqual([root.hidden, room.shown], [true, false])
  show({ part: [2, 5, 0, 10] })
  assert.deepEqual([root.hidden, room.shown], [false, true])
  assert.equal(said.text, "Only a part is shown: queries 2 to 4, keys 0 to 9 of 10 tokens.")
  assert.equal(root.dataset.here, "")
})

test("a part that is chosen in the browser is named at once, and holds as the server draws", () => {
  const { root, said, show } = line()
  show({})
  chooseHere({ zoom: "2,3,0,1" })
  assert.equal(said.text, "Only a part is shown: queries 2, keys 0 of 10 tokens.")
  chooseHere({ query: "1" })
  show({})
  assert.deepEqual([root.hidden, sent], [false, []])
})

test("the browser goes back to the whole by itself", () => {
  const { root, show, press } = line()
  globalThis.location.search = "?zoom=2%2C5%2C0%2C10&layer=1"
  show({ part: [2, 5, 0, 10] })
  press()
  assert.deepEqual([root.hidden, globalThis.location.search, sent], [true, "?layer=1", []])
})

test("the server is asked where only it can draw the whole", async () => {
  for (const only of ["long", "lines"]) {
    const { root, show, press } = line()
    sent = []
    show({ part: [2, 5, 0, 10], here: only !== "long" })
    if (only === "lines") leftToServer({ isConnected: true }, ["zoom"])
    press()
    assert.deepEqual([root.hidden, sent], [false, [["whole", true]]])
  }
})
