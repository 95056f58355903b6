import assert from "node:assert/strict"
import { test } from "node:test"

import { beyond, cornersOf } from "../../gpt2viz/app/scripts/lens.js"

const SQUARE = { x: 60, y: 20, w: 40, h: 40 }
const MATRIX = { x: 80, y: 30, w: 200, h: 200, names: 49 }

test("the lens spans from the square's right side to the matrix's row labels", () => {
  const map = { left: 100, right: 500, top: 300 }, view = { left: 520, top: 250 }
  assert.deepEqual(cornersOf(map, SQUARE, view, MATRIX),
    [[100, 20], [467, -20], [467, 180], [100, 60]])
  assert.deepEqual(cornersOf({ left: 200, right: 1000, top: 600 }, SQUARE,
    { left: 1040, top: 500 }, MATRIX, 2), [[100, 20], [467, -20], [467, 180], [100, 60]])
})

test("there is no lens if the matrix is below the map", () => {
  const matrix = { left: 100, top: 900 }
  assert.deepEqual(cornersOf({ left: 100, right: 500, top: 300 }, SQUARE, matrix, MATRIX), [])
})

test("the lens's lines begin at the edge of the map", () => {
  assert.equal(beyond(400, [100, 20], [500, -20]), "M400 -10L500 -20")
})
