import assert from "node:assert/strict"
import { test } from "node:test"

import {
  dragged, every, ink, kind, pixels, place, plan, read, said, shade, step, under,
} from "../../gpt2viz/app/components/tiles/component.js"

// A message by hand, byte by byte: two panels of 2 × 3, of which the cells `masked` are masked.
function message(values, masked, more = {}) {
  const head = { names: ["0", "1"], rows: ["a", "b"], columns: ["a", "b", "c"], ...more }
  const json = new TextEncoder().encode(JSON.stringify(head))
  const padded = Math.ceil(json.length / 4) * 4
  const bytes = new Uint8Array(4 + padded + 4 * values.length + Math.ceil(values.length / 8))
  const view = new DataView(bytes.buffer)
  bytes.fill(0x20, 4, 4 + padded)
  view.setUint32(0, padded, true)
  bytes.set(json, 4)
  values.forEach((value, n) => view.setFloat32(4 + padded + 4 * n, value, true))
  for (const n of masked) bytes[4 + padded + 4 * values.length + Math.floor(n / 8)] |= 2 ** (n % 8)
  return bytes
}

const SPECIAL = [
  { color: "#010203", other: "#040506", sign: "−∞", text: "masked" },
  { color: "#070809", other: "#070809", sign: "NaN", text: "NaN, not a number" },
  { color: "#0a0b0c", other: "#0a0b0c", sign: "∞", text: "infinite" },
]

test("a message is read from the middle of a buffer, each number and each bit", () => {
  const values = [0, -1.5, 2 ** -20, 3.25, NaN, Infinity, 7, 8, 9, 10, 11, 0.1]
  const masked = [0, 3, 7, 8, 11]
  const sent = message(values, masked, { alt: "“schön”" })
  const beside = new Uint8Array(sent.length + 3)
  beside.set(sent, 3)
  const found = read(beside.subarray(3))
  assert.deepEqual([...found.values], values.map(Math.fround))
  assert.deepEqual(values.flatMap((_, n) => found.masked(n) ? [n] : []), masked)
  assert.deepEqual([found.rows, found.alt], [["a", "b"], "“schön”"])
})

test("masked, NaN and infinite are told apart, and NaN is NaN where it is masked too", () => {
  const values = [1, NaN, Infinity, -Infinity, NaN, -Infinity, 0, 0, 0, 0, 0, 0]
  const found = read(message(values, [4, 5]))
  assert.deepEqual([0, 1, 2, 3, 4, 5].map((n) => kind(found, n)), [0, 2, 3, 3, 2, 1])
})

test("a colour lies between the stops on both sides of its number", () => {
  const p = { low: -2, high: 2, scale: [[0, "#000000"], [0.25, "#ff0000"], [1, "#ff8040"]] }
  assert.deepEqual(shade(p, -2), [0, 0, 0])
  assert.deepEqual(shade(p, -1.5), [128, 0, 0]) // half of the way to the second stop
  assert.deepEqual(shade(p, -1), [255, 0, 0])
  assert.deepEqual(shade(p, 0.5), [255, 64, 32]) // half of the way from there to the last
  assert.deepEqual(shade(p, 2), [255, 128, 64])
  assert.deepEqual([shade(p, -9), shade(p, 9)], [[0, 0, 0], [255, 128, 64]])
})

test("each cell of each panel has its own pixel, row by row", () => {
  const values = Array.from({ length: 12 }, (_, n) => n)
  const p = { ...read(message(values, [4, 5])), low: 0, high: 11, squares: 100, special: SPECIAL,
    scale: [[0, "#000000"], [1, "#ffffff"]] }
  const found = pixels(p)
  const pixel = (n) => [...found[Math.floor(n / 6)].slice(4 * (n % 6), 4 * (n % 6) + 4)]
  for (const n of values) if (n !== 4 && n !== 5) {
    const gray = 255 * n / 11
    pixel(n).slice(0, 3).forEach((channel) => assert.ok(Math.abs(channel - gray) <= 1, `cell ${n}`))
    assert.equal(pixel(n)[3], 255)
  }
  assert.deepEqual(pixel(4), [1, 2, 3, 255]) // row 1, column 1: an even square
  assert.deepEqual(pixel(5), [4, 5, 6, 255])
})

test("what is masked is a chessboard, of larger squares where there are many cells", () => {
  const n = 40, all = { names: ["0"], rows: Array(n).fill("q"), columns: Array(n).fill("k") }
  const p = { ...all, values: new Float32Array(n * n), masked: () => 1, low: 0, high: 1,
    squares: 20, special: SPECIAL, scale: [[0, "#000000"], [1, "#ffffff"]] }
  const [bytes] = pixels(p)
  const first = (row, column) => bytes[4 * (row * n + column)]
  assert.deepEqual([0, 1, 2, 3, 4].map((column) => first(0, column)), [1, 1, 4, 4, 1])
  assert.deepEqual([0, 1, 2, 3, 4].map((row) => first(row, 0)), [1, 1, 4, 4, 1])
  assert.equal(first(2, 2), 1)
})

const NAMES = Array.from({ length: 7 }, (_, n) => `${n} word`)

// Three panels of 5 × 7, two in a row, each letter 6 pixels wide.
function layout(more = {}, width = 800) {
  const p = { names: ["0", "1", "2"], rows: NAMES.slice(0, 5), columns: NAMES,
    across: 2, tallest: 300,
    rowEnds: NAMES.slice(0, 5), columnEnds: NAMES, part: [], special: [], bar: "", ...more }
  return { p, look: plan(p, width, (text) => 6 * text.length) }
}

for (const [which, more, width] of [
  ["in a wide window", {}, 1200],
  ["in a narrow one", { bar: "weight" }, 420],
  ["with long names", { rowEnds: ["an endless word of many letters"], columnEnds: ["a long one"] }],
  ["under a legend", { special: [{ there: true }], part: ["queries 1 to 5", "1–5"] }],
])
  test(`every cell is found under the pointer, at its middle and its corners, ${which}`, () => {
    const { p, look } = layout(more, width)
    const shares = [[0.5, 0.5], [0.01, 0.01], [0.99, 0.01], [0.01, 0.99], [0.99, 0.99]]
    look.boxes.forEach((box, panel) => {
      for (let row = 0; row < p.rows.length; row++)
        for (let column = 0; column < p.columns.length; column++)
          for (const [right, below] of shares) {
            const x = box.x + (column + right) * look.cell, y = box.y + (row + below) * look.cell
            const found = under(place(look, x, y))
            assert.deepEqual([found.panel, found.row + 0, found.column + 0], [panel, row, column])
          }
    })
  })

test("no cell is beside a panel, over it or below it", () => {
  const { look } = layout()
  const { w, h, boxes: [{ x, y }] } = look
  for (const [left, top] of [[x - 0.1, y + 5], [x + w, y + 5], [x + 5, y - 0.1], [x + 5, y + h]])
    assert.equal(under(place(look, left, top)), null)
})

test("panels lie side by side, and nothing lies over another or outside", () => {
  for (const width of [320, 800, 1600]) {
    const { look: { boxes, w, h, height } } = layout({ bar: "weight" }, width)
    const [a, b, c] = boxes
    assert.equal(a.y, b.y)
    assert.ok(a.x + w <= b.x && b.x + w <= width)
    assert.ok(a.y + h <= c.y && c.y + h <= height)
    assert.equal(a.x, c.x)
    assert.deepEqual(boxes.map(({ first }) => first), [true, false, true])
    assert.deepEqual(boxes.map(({ last }) => last), [false, true, true])
  }
})

test("a part is named in full where there is room, in short where there is none", () => {
  const part = ["queries 1000 to 1003, keys 20 to 23", "1000–1003 × 20–23"]
  assert.deepEqual([1200, 420].map((width) => layout({ part }, width).look.part), part)
})

test("names stand as close as there is room for", () => {
  assert.deepEqual([every(20, 13), every(7, 13), every(3, 13), every(0.5, 13)], [1, 2, 5, 50])
  assert.deepEqual([every(0.01, 13), every(1, 0)], [200, 1])
})

test("keys go from cell to cell and stop at the ends", () => {
  const { p } = layout()
  assert.deepEqual(step(p, null, "ArrowDown"), { panel: 0, row: 0, column: 0 })
  const at = { panel: 1, row: 2, column: 3 }
  for (const [key, change] of Object.entries({
    ArrowUp: { row: 1 }, ArrowDown: { row: 3 }, ArrowLeft: { column: 2 }, ArrowRight: { column: 4 },
    PageUp: { panel: 0 }, PageDown: { panel: 2 },
  })) assert.deepEqual(step(p, at, key), { ...at, ...change })
  const first = { panel: 0, row: 0, column: 0 }, last = { panel: 2, row: 4, column: 6 }
  for (const key of ["ArrowUp", "ArrowLeft", "PageUp"]) assert.deepEqual(step(p, first, key), first)
  for (const key of ["ArrowDown", "ArrowRight", "PageDown"])
    assert.deepEqual(step(p, last, key), last)
})

test("a drag takes in the cells whose middle it passed, from either side", () => {
  assert.deepEqual(dragged(4.2, 9.2), [5, 9])
  assert.deepEqual(dragged(9.2, 4.2), [5, 9])
  assert.deepEqual(dragged(3, 3.4), [3, 3])
  assert.deepEqual(dragged(-0.5, 0.2).map((n) => n + 0), [0, 0])
})

test("what stands in a cell is said in six digits, or in words", () => {
  const p = { ...read(message([0.12345678, 2e-9, NaN, 0, 5, 6, 7, 8, 9, 10, 11, 12.5], [3])),
    special: SPECIAL, quantity: "attention weight" }
  const at = (panel, row, column) => said(p, { panel, row, column })
  assert.equal(at(0, 0, 0), "attention weight 0.123457")
  assert.equal(at(0, 0, 1), "attention weight 2e-9")
  assert.equal(at(0, 0, 2), "NaN, not a number")
  assert.equal(at(0, 1, 0), "masked")
  assert.equal(at(1, 1, 2), "attention weight 12.5")
})

test("a number in a cell can be read on its colour", () => {
  assert.equal(ink([255, 255, 255]), "#1c2030")
  assert.equal(ink([0, 0, 0]), "#ffffff")
  assert.equal(ink([0, 255, 0]), "#1c2030") // green is much lighter than blue
  assert.equal(ink([0, 0, 255]), "#ffffff")
})
