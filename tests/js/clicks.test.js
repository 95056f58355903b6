import assert from "node:assert/strict"
import { test } from "node:test"

import { cells, stretch } from "../../gpt2viz/app/components/clicks/component.js"

const EDGE = { left: 100, right: 300, top: 50, bottom: 250 }
const at = (clientX, clientY) => ({ clientX, clientY })

test("a drag stays in its picture and has its ends in order", () => {
  const found = stretch(at(150, 200), at(500, 20), EDGE)
  assert.deepEqual([found.across, found.along], [[150, 300], [50, 200]])
  assert.deepEqual(stretch(at(150, 60), at(20, 70), EDGE).across, [100, 150])
})

test("a hand that shakes has clicked", () => {
  assert.ok(!stretch(at(150, 60), at(155, 65), EDGE).far) // seven pixels
  assert.ok(stretch(at(150, 60), at(156, 66), EDGE).far) // eight and a half
})

test("a drag takes in the cells whose middle it passed", () => {
  const axis = { _offset: 30, p2l: (pixel) => pixel / 10 - 0.5 } // cells of ten pixels
  const from = 200 // the first cell's middle is at 235, the third's at 255
  assert.deepEqual(cells(axis, [236, 256], from), [1, 2])
  assert.deepEqual(cells(axis, [235, 255], from), [0, 2])
})
