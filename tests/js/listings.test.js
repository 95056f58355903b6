import assert from "node:assert/strict"
import { test } from "node:test"

import { leads } from "../../gpt2viz/app/scripts/listings.js"
import { nextIndex } from "../../gpt2viz/app/scripts/make.js"
import { Part } from "./part.js"

const BESIDE = { 3: [10], 5: [10, 11], 8: [10, 12], 9: [] }

test("a line leads to its counterpart, cycling if there are several", () => {
  assert.equal(leads(BESIDE, 12, 3), 8)
  assert.deepEqual([undefined, 3, 5, 8, 9].map((chosen) => leads(BESIDE, 10, chosen)),
    [3, 5, 8, 3, 3])
  assert.equal(leads(BESIDE, 13, 3), undefined)
})

test("arrow keys move between lines and stop at the ends; other keys don't", () => {
  assert.equal(nextIndex("ArrowDown", 3, 9), 4)
  assert.equal(nextIndex("ArrowDown", 8, 9), 8)
  assert.equal(nextIndex("ArrowUp", 3, 9), 2)
  assert.equal(nextIndex("ArrowUp", 0, 9), 0)
  assert.equal(nextIndex("Home", 3, 9), 0)
  assert.equal(nextIndex("End", 3, 9), 8)
  assert.equal(nextIndex("Enter", 3, 9), undefined)
})

test("a click on either side highlights both and is sent", async () => {
  globalThis.document = { createElement: (tag) => new Part(tag) }
  const { default: draw } = await import("../../gpt2viz/app/scripts/listings.js")
  const root = new Part("div"), sent = []
  const data = { titles: ["mine", "yours"], chosen: 1, parts: [1, 1, null, 4],
    listings: [["def f(", "    x  # so", "", "  y"], ["a", "b", "c"]],
    beside: { 1: [2], 4: [2, 3] } }
  const call = { data, parentElement: { querySelector: () => root },
    setTriggerValue: (...what) => sent.push(what) }
  const lit = () => root.all("ol").map((list) => list.all("button")
    .filter((button) => button.attributes["aria-current"]).map((button) => button.line))
  draw(call)
  const [mine, yours] = root.all("ol").map((list) => list.all("button"))
  assert.deepEqual([mine, yours].map((buttons) => buttons.map(({ line }) => line)),
    [[1, 2, 4], [2, 3]])
  assert.deepEqual(lit(), [[1, 2], [2]])
  mine[2].onclick()
  assert.deepEqual(lit(), [[4], [2, 3]])
  assert.deepEqual([mine, yours].map((buttons) => buttons.map(({ tabIndex }) => tabIndex)),
    [[-1, -1, 0], [0, -1]])
  yours[0].onclick() // beside both: the one that isn't chosen
  assert.deepEqual(lit(), [[1, 2], [2]])
  mine[1].onclick() // cycles on from line 1
  assert.deepEqual(sent, [["line", 4], ["line", 1], ["line", 1]])
  draw({ ...call, data: { ...data, chosen: 4 } })
  assert.deepEqual(lit(), [[4], [2, 3]])
  assert.equal(root.all("ol")[0].all("button")[0], mine[0]) // it isn't created again
  assert.equal(root.all("i")[0].textContent, "  # so")
})
