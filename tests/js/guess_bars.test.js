import assert from "node:assert/strict"
import { test } from "node:test"

import { moved, shared } from "../../gpt2viz/app/scripts/guess_bars.js"
import { Part } from "./part.js"

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0)

test("a total is shared out in whole numbers in proportion, without a remainder", () => {
  assert.deepEqual(shared(100, [0, 0, 0]), [34, 33, 33])
  assert.deepEqual(shared(100, [1, 1, 2]), [25, 25, 50])
  assert.deepEqual(shared(1, [5, 5]), [1, 0])
  assert.deepEqual(shared(10, [1, 2]), [3, 7])
  assert.deepEqual(shared(0, [3, 4]), [0, 0])
  assert.deepEqual(shared(0, []), [])
})

test("bars that aren't set share the rest", () => {
  assert.deepEqual(moved([34, 33, 33], new Set(), 0, 60), [60, 20, 20])
  assert.deepEqual(moved([60, 20, 20], new Set([0]), 1, 30), [60, 30, 10])
  assert.deepEqual(moved([60, 30, 10], new Set([0, 1]), 0, 50), [50, 30, 20])
})

test("set bars change only if no other bar can", () => {
  assert.deepEqual(moved([60, 30, 10], new Set([0, 1]), 1, 50), [50, 50, 0])
  assert.deepEqual(moved([40, 40, 20], new Set([0, 1, 2]), 2, 60), [20, 20, 60])
  assert.deepEqual(moved([100, 0, 0], new Set([0, 1, 2]), 0, 50), [50, 25, 25])
})

test("after any drags in any order, no bar is negative and the sum is kept", () => {
  let seed = 7
  const random = (limit) => { seed = seed * 16807 % 2147483647; return seed % limit }
  for (let n = 2; n < 7; n++) {
    let bars = shared(100, Array(n).fill(0))
    const set = new Set()
    for (let turn = 0; turn < 400; turn++) {
      const bar = random(n), value = random(101)
      bars = moved(bars, set, bar, value)
      set.add(bar)
      assert.equal(bars[bar], value)
      assert.equal(sum(bars), 100)
      assert.ok(bars.every((whole) => Number.isInteger(whole) && whole >= 0))
    }
  }
})

test("a guess is sent by a button, and survives redrawing", async () => {
  globalThis.document = { createElement: (tag) => new Part(tag) }
  const { default: draw } = await import("../../gpt2viz/app/scripts/guess_bars.js")
  const root = new Part("div"), sent = []
  const drawn = { data: { title: "weights", names: ["a", "b", "c"] },
    parentElement: { querySelector: () => root },
    setTriggerValue: (...what) => sent.push(what) }
  draw(drawn)
  const [first] = root.all("input"), [mine] = root.all("button")
  assert.ok(mine.disabled)
  first.value = "80"
  first.oninput()
  assert.ok(!mine.disabled)
  draw(drawn)
  assert.deepEqual(root.all("input").map((field) => field.attributes["aria-valuetext"]),
    ["0.80", "0.10", "0.10"])
  root.all("button").forEach((button) => button.onclick())
  assert.deepEqual(sent, [["expected", [80, 10, 10]], ["skipped", true]])
  draw({ ...drawn, data: { ...drawn.data, guess: [80, 10, 10], real: [.5, .25, .25] } })
  assert.equal(root.all("input").length, 0)
  const cells = root.all("td").flatMap((cell) => cell.children.slice(0, 1))
  assert.deepEqual(cells.map((cell) => cell.textContent),
    ["0.80", "0.50", "0.10", "0.25", "0.10", "0.25"])
})
