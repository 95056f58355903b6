import assert from "node:assert/strict"
import { test } from "node:test"

import { edges, pooled } from "../../gpt2viz/app/scripts/pooling.js"

test("blocks are as equal as possible, and cells stay single if all fit", () => {
  assert.deepEqual(edges(7, 3), [0, 2, 4, 7])
  assert.deepEqual(edges(3, 8), [0, 1, 2, 3])
})

test("a block has its number farthest from 0, masked cells excluded", () => {
  const values = [1, -3, 3, 0, 9, 2, NaN, 1, 4, 5, 6, 7]
  const masked = (n) => [4, 8, 9].includes(n)
  const result = pooled(values, masked, 4, [0, 2, 3], [0, 2, 4])
  assert.deepEqual(result, { shown: [-3, NaN, 4, 7], hidden: [false, false, true, false] })
  assert.deepEqual(pooled([-3, 3], () => false, 2, [0, 1], [0, 2]).shown, [3])
})
