import assert from "node:assert/strict"
import { test } from "node:test"

import {
  choose, current, dropPending, pending, point, sender, sendPending, takePart,
} from "../../gpt2viz/app/scripts/state.js"

globalThis.PopStateEvent = class extends Event {}

// As much of a page as is needed here, with a part that draws any choice.
function open(search) {
  const result = new EventTarget()
  result.location = { search, pathname: "/head" }
  result.addresses = []
  result.history = { pushState: (_state, _title, to) => {
    result.addresses.push(to)
    result.location.search = to.startsWith("?") ? to : ""
  } }
  result.events = 0
  result.addEventListener("popstate", () => { result.events += 1 })
  takePart({ isConnected: true }, { offers: () => true }, result)
  return result
}

test("a choice is added to the address, and holds until it is sent", () => {
  const page = open("?text=a+b&head=1")
  assert.equal(current("head", "1", page), "1")
  choose({ head: "3", layer: "2" }, {}, page)
  assert.deepEqual(page.addresses, ["?text=a+b&head=3&layer=2"])
  assert.equal(current("head", "1", page), "3")
  assert.equal(current("more", "0,2", page), "0,2")
  choose({ head: null }, {}, page)
  assert.equal(page.addresses.at(-1), "?text=a+b&layer=2")
  assert.equal(current("head", "1", page), null)
  assert.equal(sendPending(page), true)
  assert.equal(current("head", "1", page), "1")
  assert.equal(page.events, 1)
  assert.equal(sendPending(page), false)
  assert.equal(page.events, 1)
})

test("an address without parameters is the page's path", () => {
  const page = open("?zoom=0,1,0,1")
  choose({ zoom: null }, {}, page)
  assert.deepEqual(page.addresses, ["/head"])
})

test("the server's address and drawing stay known over several choices", () => {
  const page = open("?head=1")
  choose({ head: "3", layer: "2" }, { layer: "0" }, page)
  choose({ head: "4", layer: "1" }, { layer: "2" }, page)
  assert.deepEqual([...pending(page)], [
    ["head", { inAddress: "1", drawn: "1", now: "4" }],
    ["layer", { inAddress: null, drawn: "0", now: "1" }],
  ])
})

test("every script is told of choices as long as its part is connected", () => {
  const page = open(""), heard = [], part = { isConnected: true }
  const callbacks = { changed: (changes) => heard.push(changes), pointed: (at) => heard.push(at) }
  takePart(part, callbacks, page)
  choose({ head: "3" }, {}, page)
  point({ query: 2 }, part, page)
  point({ query: 1 }, null, page)
  part.isConnected = false
  point({ query: 0 }, null, page)
  choose({ head: "4" }, {}, page)
  part.isConnected = true
  choose({ head: "5" }, {}, page)
  assert.deepEqual(heard, [{ head: "3" }, { query: 1 }])
  const left = { isConnected: false }
  for (const next of [left, part]) takePart(next, {}, page)
  assert.ok(!page.gpt2viz_state.parts.has(left), "a disconnected part is kept with its numbers")
})

test("messages are sent after pending choices, in a later task", async () => {
  const page = open(""), sent = []
  const send = sender((...what) => sent.push([...what, page.events]), page)
  send("cell", 1)
  assert.deepEqual(sent, [["cell", 1, 0]])
  choose({ head: "3" }, {}, page)
  send("cell", 2)
  assert.equal(sent.length, 1)
  assert.equal(page.events, 1)
  await new Promise((done) => { setTimeout(done, 5) })
  assert.deepEqual(sent[1], ["cell", 2, 1])
})

test("a choice is made here unless some part needs the server to draw it", () => {
  const page = open(""), part = { isConnected: true }, query = { query: "1" }
  takePart(part, { offers: (changes) => "query" in changes ? false : undefined }, page)
  assert.deepEqual([choose(query, {}, page), choose({ head: "1" }, {}, page)], [false, true])
  assert.deepEqual(page.addresses, ["?head=1"])
  part.isConnected = false
  assert.equal(choose(query, {}, page), true)
  const bare = new EventTarget()
  Object.assign(bare, { location: { search: "" } })
  assert.equal(choose(query, {}, bare), false, "nobody draws it")
})

test("a choice that doesn't fit into the address isn't made here", () => {
  const page = open(`?text=${"x".repeat(5985)}`)
  assert.ok(!choose({ zoom: "0,1,0,100000" }, {}, page))
  assert.ok(choose({ zoom: "0,1,0,1" }, {}, page))
})

test("on Back, the server's drawing is restored", () => {
  const page = open("?head=1"), heard = []
  choose({ head: "3", query: "0" }, { query: null }, page)
  const hear = (changes) => heard.push([changes, current("head", "1", page)])
  takePart({ isConnected: true }, { changed: hear }, page)
  dropPending(page)
  assert.deepEqual(heard, [[{ head: "1", query: null }, "1"]])
  dropPending(page)
  assert.equal(heard.length, 1)
})
