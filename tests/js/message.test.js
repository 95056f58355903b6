import assert from "node:assert/strict"
import { test } from "node:test"

import { bits, edges, message, pooled } from "../../gpt2viz/app/scripts/message.js"
import { readMatrices as read } from "../../gpt2viz/app/scripts/matrices.js"

test("blocks are as even as they can be, and none is made where all fit", () => {
  assert.deepEqual(edges(7, 3), [0, 2, 4, 7])
  assert.deepEqual(edges(3, 8), [0, 1, 2, 3])
})

test("a block has its number farthest from 0, without what is masked", () => {
  const values = [1, -3, 3, 0, 9, 2, NaN, 1, 4, 5, 6, 7]
  const masked = (n) => [4, 8, 9].includes(n)
  const result = pooled(values, masked, 4, [0, 2, 3], [0, 2, 4])
  assert.deepEqual(result, { shown: [-3, NaN, 4, 7], hidden: [false, false, true, false] })
  assert.deepEqual(pooled([-3, 3], () => false, 2, [0, 1], [0, 2]).shown, [3])
})

test("the canvas reads the message that is written for it", () => {
  const values = Float32Array.from([.5, .25, 1, 0]), masked = [false, true, false, true]
  const header = { panels: [{ grid: 0 }], grids: [{ rows: ["a", "“ö”"], columns: ["c", "d"] }] }
  const p = read(message(header, values, bits(masked)))
  assert.deepEqual([...p.values], [...values])
  assert.deepEqual(masked.map((_, n) => p.masked(n)), [0, 1, 0, 1])
  assert.deepEqual(p.panels[0].rows, ["a", "“ö”"])
})
