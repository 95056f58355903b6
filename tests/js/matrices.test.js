import assert from "node:assert/strict"
import { test } from "node:test"

import {
  partInWords, openMessage, parsePart, readMatrices, formatPart, draggedPart,
} from "../../gpt2viz/app/scripts/matrices.js"
import { bits, message as encode } from "./message.js"

const TWO_BY_THREE = { rows: ["a", "b"], columns: ["“ö”", "d", "e"] }

test("a message has a header, and numbers aligned to four bytes", () => {
  const result = openMessage(encode({ name: "ö" }, Float32Array.of(1, 2)))
  assert.deepEqual(result.head, { name: "ö" })
  assert.equal(result.at % 4, 0)
  assert.deepEqual([...new Float32Array(result.buffer, result.at)], [1, 2])
})

test("panels have the labels of their grid, their numbers and their mask", () => {
  const values = Float32Array.from({ length: 12 }, (_, n) => n / 8)
  const masked = Array.from({ length: 12 }, (_, n) => n % 5 === 4)
  const header = { panels: [{ grid: 0, name: "x" }, { grid: 0, name: "y" }], grids: [TWO_BY_THREE] }
  const p = readMatrices(encode(header, values, bits(masked)))
  assert.deepEqual(p.panels.map(({ name, start, rows }) => [name, start, rows]),
    [["x", 0, TWO_BY_THREE.rows], ["y", 6, TWO_BY_THREE.rows]])
  assert.deepEqual([...p.values], [...values])
  assert.deepEqual(masked.map((_, n) => Boolean(p.masked(n))), masked)
  assert.equal(p.whole, undefined)
})

test("the whole matrices follow a part, aligned to four bytes", () => {
  const part = { rows: ["b"], columns: ["d"] }
  const header = { panels: [{ grid: 0 }], grids: [part],
    wholes: { panels: [{ grid: 0 }], grids: [TWO_BY_THREE] } }
  const whole = Float32Array.of(1, 2, 3, 4, 5, 6)
  const p = readMatrices(encode(header, Float32Array.of(5), Uint8Array.of(1, 0, 0, 0), whole,
    bits([0, 0, 1, 0, 0, 0])))
  assert.deepEqual([...p.values], [5])
  assert.ok(p.masked(0))
  assert.deepEqual([...p.whole.values], [...whole])
  assert.deepEqual([0, 1, 2, 3, 4, 5].map(p.whole.masked), [0, 0, 1, 0, 0, 0])
  assert.deepEqual(p.whole.panels[0].columns, TWO_BY_THREE.columns)
})

const SPECIAL = ["masked", "NaN", "infinite"].map((name) => ({ name, color: `#${name}` }))

// A panel of ten queries and ten keys whose cell (q, k) holds 10 q + k, as it is read; `more` for
// the header and for what parts are cut by. Cells of later keys are masked.
function message({ axis = {}, zooms = {}, ...more } = {}) {
  const { short = [..."abcdefghij"], positions = short.map((_, n) => n) } = axis
  const names = short.map((label, n) => `${positions[n]} ${label}`)
  const grid = { rows: names, columns: names, rowEnds: names, columnEnds: names, frame: null,
    columnTitle: axis.columnTitle ?? "key" }
  const side = [positions, short], size = names.length
  return { grids: [grid], panels: [{ ...grid, grid: 0, start: 0, name: "a" }], special: SPECIAL,
    values: Float32Array.from({ length: size * size }, (_, n) => n), tallest: 300,
    masked: (n) => Number(n % size > Math.floor(n / size)),
    zooms: { part: null, end: 10, row: null, column: null, axes: [{ rows: side, columns: side }],
      scale: "signed", least: 0, masked: ["later"], legend: true, grows: null, ...zooms }, ...more }
}

test("the whole text and invalid parts are not parsed as parts", () => {
  assert.deepEqual(parsePart("2,5,0,10", 10), [2, 5, 0, 10])
  const others = ["", "0,10,0,10", "2,5,0,11", "5,5,0,1", "a", "1,2", "1,2,3,4,5"]
  for (const none of [null, undefined, ...others]) assert.equal(parsePart(none, 10), null)
  assert.deepEqual([formatPart([2, 5, 0, 10]), formatPart(null)], ["2,5,0,10", null])
})

test("a part is named by its first and last tokens, or by a single one", () => {
  assert.equal(partInWords([2, 5, 0, 10]), "queries 2 to 4, keys 0 to 9")
  assert.equal(partInWords([2, 3, 9, 10]), "queries 2, keys 9")
})

test("a drag chooses the tokens of its cells, counted within the shown part", () => {
  const p = message()
  assert.deepEqual(draggedPart(p, null, 0, [2, 4], [0, 9]), [2, 5, 0, 10])
  assert.deepEqual(draggedPart(p, [4, 8, 3, 6], 0, [1, 2], [0, 1]), [5, 7, 3, 5])
  assert.deepEqual(draggedPart(p, [4, 8, 3, 6], 0, [-1, 9], [2, 5]), [4, 8, 5, 6])
  assert.equal(draggedPart(p, null, 0, [3, 2], [0, 9]), null)
  assert.equal(draggedPart(p, null, 0, [2, 3], [5, 4]), null)
})

test("a drag over columns that aren't keys keeps the shown keys", () => {
  const p = message({ axis: { columnTitle: "dimension" } })
  assert.deepEqual(draggedPart(p, [0, 10, 3, 6], 0, [2, 4], [5, 4]), [2, 5, 3, 6])
})

test("a drag over words chooses all their tokens", () => {
  const p = message({ axis: { positions: [0, 3, 7], short: ["un", "believ", "able"] } })
  assert.deepEqual(draggedPart(p, null, 0, [0, 1], [2, 2]), [0, 7, 7, 10])
  assert.deepEqual(draggedPart(p, [4, 9, 0, 10], 0, [0, 1], [0, 0]), [3, 9, 0, 3])
})
