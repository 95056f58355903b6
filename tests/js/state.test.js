import assert from "node:assert/strict"
import { test } from "node:test"

import {
  choose, current, dropPending, pending, point, sender, sendPending, takePart,
} from "../../gpt2viz/app/scripts/state.js"

globalThis.PopStateEvent = class extends Event {}

// A page of a browser, as far as it is needed here, with a part that draws whatever is chosen.
function page(search) {
  const one = new EventTarget()
  one.location = { search, pathname: "/head" }
  one.asked = []
  one.history = { pushState: (_state, _title, to) => {
    one.asked.push(to)
    one.location.search = to.startsWith("?") ? to : ""
  } }
  one.told = 0
  one.addEventListener("popstate", () => { one.told += 1 })
  takePart({ isConnected: true }, { offers: () => true }, one)
  return one
}

test("what is chosen stands in the address beside the rest, and holds until it is told", () => {
  const one = page("?text=a+b&head=1")
  assert.equal(current("head", "1", one), "1")
  choose({ head: "3", layer: "2" }, {}, one)
  assert.deepEqual(one.asked, ["?text=a+b&head=3&layer=2"])
  assert.equal(current("head", "1", one), "3")
  assert.equal(current("more", "0,2", one), "0,2")
  choose({ head: null }, {}, one)
  assert.equal(one.asked.at(-1), "?text=a+b&layer=2")
  assert.equal(current("head", "1", one), null)
  assert.equal(sendPending(one), true)
  assert.equal(current("head", "1", one), "1")
  assert.equal(one.told, 1)
  assert.equal(sendPending(one), false)
  assert.equal(one.told, 1)
})

test("an address that says nothing any more is that of the page", () => {
  const one = page("?zoom=0,1,0,1")
  choose({ zoom: null }, {}, one)
  assert.deepEqual(one.asked, ["/head"])
})

test("it is known what the server has said and drawn, however often is chosen since", () => {
  const one = page("?head=1")
  choose({ head: "3", layer: "2" }, { layer: "0" }, one)
  choose({ head: "4", layer: "1" }, { layer: "2" }, one)
  assert.deepEqual([...pending(one)], [
    ["head", { said: "1", drawn: "1", now: "4" }],
    ["layer", { said: null, drawn: "0", now: "1" }],
  ])
})

test("every script hears what is chosen, for as long as it has a part of the page", () => {
  const one = page(""), heard = [], part = { isConnected: true }
  const ways = { changed: (changes) => heard.push(changes), pointed: (at) => heard.push(at) }
  takePart(part, ways, one)
  choose({ head: "3" }, {}, one)
  point({ query: 2 }, part, one)
  point({ query: 1 }, null, one)
  part.isConnected = false
  point({ query: 0 }, null, one)
  choose({ head: "4" }, {}, one)
  part.isConnected = true
  choose({ head: "5" }, {}, one)
  assert.deepEqual(heard, [{ head: "3" }, { query: 1 }])
})

test("what is sent goes after what is to be told, in a moment of its own", async () => {
  const one = page(""), sent = [], send = sender((...what) => sent.push([...what, one.told]), one)
  send("cell", 1)
  assert.deepEqual(sent, [["cell", 1, 0]])
  choose({ head: "3" }, {}, one)
  send("cell", 2)
  assert.equal(sent.length, 1)
  assert.equal(one.told, 1)
  await new Promise((done) => { setTimeout(done, 5) })
  assert.deepEqual(sent[1], ["cell", 2, 1])
})

test("what a part draws is chosen here, unless only the server can draw another part", () => {
  const one = page(""), part = { isConnected: true }, query = { query: "1" }
  takePart(part, { offers: (changes) => "query" in changes ? false : undefined }, one)
  assert.deepEqual([choose(query, {}, one), choose({ head: "1" }, {}, one)], [false, true])
  assert.deepEqual(one.asked, ["?head=1"])
  part.isConnected = false
  assert.equal(choose(query, {}, one), true)
  const bare = new EventTarget()
  Object.assign(bare, { location: { search: "" } })
  assert.equal(choose(query, {}, bare), false, "nobody draws it")
})

test("what an address has no room for isn't chosen here", () => {
  const one = page(`?text=${"x".repeat(5985)}`)
  assert.ok(!choose({ zoom: "0,1,0,100000" }, {}, one))
  assert.ok(choose({ zoom: "0,1,0,1" }, {}, one))
})

test("as the browser goes back, what the server has drawn is drawn again", () => {
  const one = page("?head=1"), heard = []
  choose({ head: "3", query: "0" }, { query: null }, one)
  const hear = (changes) => heard.push([changes, current("head", "1", one)])
  takePart({ isConnected: true }, { changed: hear }, one)
  dropPending(one)
  assert.deepEqual(heard, [[{ head: "1", query: null }, "1"]])
  dropPending(one)
  assert.equal(heard.length, 1)
})
