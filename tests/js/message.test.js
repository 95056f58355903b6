import assert from "node:assert/strict"
import { test } from "node:test"

import { opened, readMatrices } from "../../gpt2viz/app/scripts/message.js"
import { bits, message } from "../../gpt2viz/notebook/attention.js"

const GRID = { rows: ["a", "b"], columns: ["“ö”", "d", "e"] }

test("a message has a header, and numbers from a multiple of four bytes on", () => {
  const found = opened(message({ name: "ö" }, Float32Array.of(1, 2)))
  assert.deepEqual(found.head, { name: "ö" })
  assert.equal(found.at % 4, 0)
  assert.deepEqual([...new Float32Array(found.buffer, found.at)], [1, 2])
})

test("panels have the names of their grid, their numbers and what is masked", () => {
  const values = Float32Array.from({ length: 12 }, (_, n) => n / 8)
  const masked = Array.from({ length: 12 }, (_, n) => n % 5 === 4)
  const said = { panels: [{ grid: 0, name: "x" }, { grid: 0, name: "y" }], grids: [GRID] }
  const p = readMatrices(message(said, values, bits(masked)))
  assert.deepEqual(p.panels.map(({ name, start, rows }) => [name, start, rows]),
    [["x", 0, GRID.rows], ["y", 6, GRID.rows]])
  assert.deepEqual([...p.values], [...values])
  assert.deepEqual(masked.map((_, n) => Boolean(p.masked(n))), masked)
  assert.equal(p.whole, undefined)
})

test("the whole ones come after a part, from a multiple of four bytes on", () => {
  const part = { rows: ["b"], columns: ["d"] }
  const said = { panels: [{ grid: 0 }], grids: [part],
    wholes: { panels: [{ grid: 0 }], grids: [GRID] } }
  const whole = Float32Array.of(1, 2, 3, 4, 5, 6)
  const p = readMatrices(message(said, Float32Array.of(5), Uint8Array.of(1, 0, 0, 0), whole,
    bits([0, 0, 1, 0, 0, 0])))
  assert.deepEqual([...p.values], [5])
  assert.ok(p.masked(0))
  assert.deepEqual([...p.whole.values], [...whole])
  assert.deepEqual([0, 1, 2, 3, 4, 5].map(p.whole.masked), [0, 0, 1, 0, 0, 0])
  assert.deepEqual(p.whole.panels[0].columns, GRID.columns)
})
