import assert from "node:assert/strict"
import { test } from "node:test"

import { turned } from "../../gpt2viz/app/scripts/picture_switch.js"

const NAMES = ["matrix", "lines"]

test("arrow keys go round the choices", () => {
  assert.equal(turned(NAMES, "matrix", "ArrowRight"), "lines")
  assert.equal(turned(NAMES, "lines", "ArrowRight"), "matrix")
  assert.equal(turned(NAMES, "matrix", "ArrowLeft"), "lines")
  assert.equal(turned(NAMES, "lines", "ArrowUp"), "matrix")
  assert.equal(turned(NAMES, "matrix", "ArrowDown"), "lines")
})

test("other keys lead nowhere", () => {
  assert.equal(turned(NAMES, "matrix", "Tab"), undefined)
  assert.equal(turned(NAMES, "matrix", "toString"), undefined)
})
