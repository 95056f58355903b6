import assert from "node:assert/strict"
import { test } from "node:test"

import { lineData, placeIn } from "../../gpt2viz/app/components/line_data.js"

test("a name has a token's place and its label, which may be a number itself", () => {
  assert.deepEqual(placeIn("12 ·cat"), [12, "·cat"])
  assert.deepEqual(placeIn("7 7 up"), [7, "7 up"])
  assert.deepEqual(placeIn("3"), [3, "3"])
})

test("panels become matrices of one picture, with what is chosen of their rows", () => {
  const grid = { rows: ["4 a", "5 b"], columns: ["0 c"], quantity: "weight", frame: [1, 1, 0, 0] }
  const p = { panels: [{ ...grid, start: 0 }, { ...grid, start: 2 }],
    values: Float32Array.of(.5, 1, .25, 0), masked: (n) => n === 3 }
  const found = lineData(p, [1, 0], ["B", "A"], { hint: "h", colors: ["#1", "#2", "#3"] })
  assert.deepEqual([found.hint, found.quantity, found.chosen], ["h", "weight", 1])
  assert.deepEqual([found.queries, found.keys], [[[4, "a"], [5, "b"]], [[0, "c"]]])
  assert.deepEqual(found.colors, ["#1", "#2"])
  assert.deepEqual(found.matrices.map(({ name, values, hidden }) => [name, [...values], hidden]),
    [["B", [.25, 0], [false, true]], ["A", [.5, 1], [false, false]]])
})

test("no row is chosen where a column is, or nothing", () => {
  const panel = { rows: ["0 a", "1 b"], columns: ["0 a"], start: 0 }
  for (const frame of [null, [0, 1, 0, 0]]) {
    const p = { panels: [{ ...panel, frame }], values: new Float32Array(2), masked: () => false }
    assert.equal(lineData(p, [0], ["A"], { colors: [] }).chosen, -1)
  }
})
