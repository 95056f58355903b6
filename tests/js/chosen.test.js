import assert from "node:assert/strict"
import { test } from "node:test"

import {
  chooseHere, drawnHere, forget, hasRoom, holds, leftToServer, offerHere, offeredHere, sender,
  tellServer, untold, whenChosen,
} from "../../gpt2viz/app/scripts/chosen.js"

globalThis.PopStateEvent = class extends Event {}

// A page of a browser, as far as it is needed here.
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
  return one
}

test("what is chosen stands in the address beside the rest, and holds until it is told", () => {
  const one = page("?text=a+b&head=1")
  assert.equal(holds("head", "1", one), "1")
  chooseHere({ head: "3", layer: "2" }, {}, one)
  assert.deepEqual(one.asked, ["?text=a+b&head=3&layer=2"])
  assert.equal(holds("head", "1", one), "3")
  assert.equal(holds("more", "0,2", one), "0,2")
  chooseHere({ head: null }, {}, one)
  assert.equal(one.asked.at(-1), "?text=a+b&layer=2")
  assert.equal(holds("head", "1", one), null)
  assert.equal(tellServer(one), true)
  assert.equal(holds("head", "1", one), "1")
  assert.equal(one.told, 1)
  assert.equal(tellServer(one), false)
  assert.equal(one.told, 1)
})

test("an address that says nothing any more is that of the page", () => {
  const one = page("?zoom=0,1,0,1")
  chooseHere({ zoom: null }, {}, one)
  assert.deepEqual(one.asked, ["/head"])
})

test("it is known what the server has said and drawn, however often is chosen since", () => {
  const one = page("?head=1")
  chooseHere({ head: "3", layer: "2" }, { layer: "0" }, one)
  chooseHere({ head: "4", layer: "1" }, { layer: "2" }, one)
  assert.deepEqual([...untold(one)], [
    ["head", { said: "1", drawn: "1", now: "4" }],
    ["layer", { said: null, drawn: "0", now: "1" }],
  ])
})

test("every script hears what is chosen, for as long as it has a part of the page", () => {
  const one = page(""), heard = [], part = { isConnected: true }
  whenChosen(part, (changes) => heard.push(changes), one)
  chooseHere({ head: "3" }, {}, one)
  part.isConnected = false
  chooseHere({ head: "4" }, {}, one)
  part.isConnected = true
  chooseHere({ head: "5" }, {}, one)
  assert.deepEqual(heard, [{ head: "3" }])
})

test("what is sent goes after what is to be told, in a moment of its own", async () => {
  const one = page(""), sent = [], send = sender((...what) => sent.push([...what, one.told]), one)
  send("cell", 1)
  assert.deepEqual(sent, [["cell", 1, 0]])
  chooseHere({ head: "3" }, {}, one)
  send("cell", 2)
  assert.equal(sent.length, 1)
  assert.equal(one.told, 1)
  await new Promise((done) => { setTimeout(done, 5) })
  assert.deepEqual(sent[1], ["cell", 2, 1])
})

test("a part that only the server can draw anew keeps others from choosing here", () => {
  const one = page(""), part = { isConnected: true }
  assert.ok(drawnHere("zoom", one))
  leftToServer(part, ["zoom"], one)
  assert.ok(!drawnHere("zoom", one) && drawnHere("picture", one))
  leftToServer(part, [], one)
  assert.ok(drawnHere("zoom", one))
  leftToServer(part, ["zoom"], one)
  part.isConnected = false
  assert.ok(drawnHere("zoom", one))
})

test("an address has room for so much", () => {
  const text = "x".repeat(5985)
  assert.ok(hasRoom(`?text=${text}`, { zoom: "0,1,0,1" }))
  assert.ok(!hasRoom(`?text=${text}`, { zoom: "0,1,0,100000" }))
})

test("what is chosen here is what a part offers to draw, and has room in the address", () => {
  const one = page(""), part = { isConnected: true }
  const query = { query: "1" }
  assert.ok(!offeredHere(query, one))
  offerHere(part, (changes) => "query" in changes, one)
  assert.ok(offeredHere(query, one) && !offeredHere({ text: "a" }, one))
  one.location.search = `?text=${"x".repeat(6000)}`
  assert.ok(!offeredHere(query, one))
  one.location.search = ""
  part.isConnected = false
  assert.ok(!offeredHere(query, one))
})

test("what only the server can draw isn't offered, whoever offers it", () => {
  const one = page(""), part = { isConnected: true }, other = { isConnected: true }
  offerHere(part, () => true, one)
  leftToServer(other, ["query"], one)
  assert.ok(!offeredHere({ head: "1", query: "1" }, one) && offeredHere({ head: "1" }, one))
})

test("as the browser goes back, what the server has drawn is drawn again", () => {
  const one = page("?head=1"), heard = []
  chooseHere({ head: "3", query: "0" }, { query: null }, one)
  const hear = (changes) => heard.push([changes, holds("head", "1", one)])
  whenChosen({ isConnected: true }, hear, one)
  forget(one)
  assert.deepEqual(heard, [[{ head: "1", query: null }, "1"]])
  forget(one)
  assert.equal(heard.length, 1)
})
