import assert from "node:assert/strict"
import { test } from "node:test"

import { read, step } from "../../gpt2viz/app/scripts/number_grid.js"

test("a number is read with either decimal sign and either minus", () => {
  const typed = { "1.5": 1.5, "1,5": 1.5, " -2 ": -2, "\u22123,25": -3.25, "1e2": 100, ".5": 0.5 }
  for (const [text, number] of Object.entries(typed)) assert.equal(read(text, 1000), number, text)
})

test("empty texts, words and numbers out of range are read as NaN", () => {
  for (const text of ["", "  ", "x", "1.2.3", "1,2,3", "1001", "-1001", "Infinity", "NaN"])
    assert.ok(Number.isNaN(read(text, 1000)), text)
  assert.deepEqual([read("1000", 1000), read("-1000", 1000)], [1000, -1000])
})

test("Enter and the arrow keys move between rows", () => {
  assert.deepEqual(["Enter", "ArrowDown", "ArrowUp"].map((key) => step(key, 3)), [3, 3, -3])
  for (const key of ["ArrowLeft", "Tab", "5", "Escape"]) assert.equal(step(key, 3), undefined)
})
