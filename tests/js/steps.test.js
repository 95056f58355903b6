import assert from "node:assert/strict"
import { test } from "node:test"

import {
  ceiling, fitting, large, losses, moved, nearest, pixels, places, read, shown,
} from "../../gpt2viz/app/scripts/steps.js"

test("weights come as whole parts of 65,534, and NaN as one more", () => {
  const bytes = new Uint8Array(new Uint16Array([0, 65534, 32767, 65535]).buffer)
  const text = btoa(String.fromCharCode(...bytes))
  assert.deepEqual([...read(text)], [0, 1, .5, NaN])
})

test("a cell has the shade of its weight, of the mask, or of what is no number", () => {
  const p = { side: 2, squares: 32, hidden: "0100", nan: "#0000ff",
    masked: ["#101010", "#202020"], shades: ["#ffffff", "#808080", "#000000"] }
  const tiles = [9, 9, 9, 9, 1, .2, NaN, .5] // the second of two heads
  const bytes = pixels(p, tiles, 1), at = (n) => [...bytes.slice(4 * n, 4 * n + 4)]
  assert.deepEqual(at(0), [0, 0, 0, 255])
  assert.deepEqual(at(1), [32, 32, 32, 255]) // masked: the other square of the chessboard
  assert.deepEqual(at(2), [0, 0, 255, 255])
  assert.deepEqual(at(3), [128, 128, 128, 255])
})

test("steps stand as far apart as their logarithms, and the nearest is found", () => {
  assert.deepEqual(places([0, 9, 99]), [0, .5, 1])
  assert.deepEqual(places([7]), [.5])
  assert.equal(nearest([0, 9, 99], .3), 1)
  assert.equal(nearest([0, 9, 99], .2), 0)
  assert.equal(nearest([0, 9, 99], 2), 2)
})

test("arrows walk from head to head and stop at the edges", () => {
  const p = { layers: 2, heads: 3 }
  assert.deepEqual(["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"]
    .map((key) => moved(p, 1, key)), [2, 4, 0, 1])
  assert.equal(moved(p, 5, "ArrowRight"), 5)
})

test("the hand goes before the answer to where it was, and the address before the hand", () => {
  const p = { at: 2, steps: [1, 2, 3, 4] }, known = { p, at: 3, sent: 1 }
  assert.equal(shown(null, p), 2)
  assert.equal(shown(known, { ...p, at: 2 }), 3) // nothing new
  assert.equal(shown(known, { ...p, at: 1 }), 3) // what was sent before the hand went on
  assert.equal(shown(known, { ...p, at: 0 }), 0) // somebody went back in the browser
  assert.equal(shown(known, { at: 1, steps: [1, 2] }), 1) // another model
})

test("the chosen head has its tokens' names beside it, and its numbers where they fit", () => {
  const measure = (text) => 6 * [...text].length
  const few = large({ rows: ["0 A", "1 ·crane"], side: 2 }, 250, measure)
  assert.deepEqual([few.names, few.room, few.size, few.cell, few.numbers],
    [["0 A", "1 ·crane"], 54, 196, 98, true])
  const rows = Array.from({ length: 40 }, (_, n) => `${n} ·unbelievable·word`)
  const many = large({ rows, side: 40 }, 250, measure)
  assert.equal(many.names[39], "39 ·unbelieva…") // 14 letters
  assert.equal(many.room + many.size, 250)
  assert.equal(many.numbers, false)
})

test("an axis ends above its largest number, or where it is told to", () => {
  const lines = [{ values: [null, 2] }, { values: [4, null] }]
  assert.equal(ceiling({ lines, highest: null }), 4.2)
  assert.equal(ceiling({ lines, highest: 1 }), 1)
  assert.equal(ceiling({ lines: [], highest: null }), 1)
})

test("of many rows those are drawn that fit, both ends among them", () => {
  assert.deepEqual(fitting(5, 10), [0, 1, 2, 3, 4])
  assert.deepEqual(fitting(49, 10), [0, 5, 11, 16, 21, 27, 32, 37, 43, 48])
  assert.deepEqual(fitting(1, 10), [0])
})

test("the sentence's loss stands beside that of the model itself", () => {
  const p = { loss: [null, 3.217], final: { loss: 2.1 } }
  assert.equal(losses(p, 1), ": yours 3.22 here, 2.10 in the model itself")
  assert.equal(losses(p, 0), "")
  assert.equal(losses({ loss: [3], final: { loss: null } }, 0), "")
})
