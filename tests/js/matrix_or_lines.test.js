import assert from "node:assert/strict"
import { test } from "node:test"

import { offers, pictures } from "../../gpt2viz/app/scripts/matrix_or_lines.js"

const NAMES = ["0 a", "1 b", "2 c"]
const GRID = { rows: NAMES, columns: NAMES, rowEnds: NAMES, columnEnds: NAMES, columnTitle: "key",
  frame: [1, 1, 0, 2] }
const AXIS = [[0, 1, 2], ["a", "b", "c"]]
const ZOOMS = { part: null, end: 3, row: 1, column: null, scale: "unit", least: 0, grows: null,
  masked: ["masked", "masked"], legend: true, axes: [{ rows: AXIS, columns: AXIS }] }
const panel = (title, start) => ({ ...GRID, grid: 0, start, title, quantity: "weight", part: [] })
const LINES = { shows: "tiny", colors: ["#1", "#2", "#3", "#4"] }
const lined = (names) => ({ what: `of ${names}`, names, lit: true, alt: `alt of ${names}` })
// Two heads: the numbers of the first are 0 to 8, of the second 9 to 17.
const P = { zooms: ZOOMS, grids: [GRID], panels: [panel("A", 0), panel("B", 9)],
  values: Float32Array.from({ length: 18 }, (_, n) => n), masked: (n) => Number(n === 2),
  special: [{ color: "#0" }, { name: "NaN", color: "#0" }, { name: "infinite", color: "#0" }],
  either: { lines: LINES, lined: [lined(["first"]), lined(["second"])] } }

const held = (changes) => (name, drawn) => name in changes ? changes[name] : drawn
const as = (...all) => ({ ...P, either: { ...P.either, lined: all } })

test("a framed row's token is highlighted only if it was chosen", () => {
  const [first] = pictures(P, held({})), [dark] = pictures(as({ ...lined(["first"]), lit: false }))
  assert.deepEqual([first.data.chosen, dark.data.chosen], [1, -1])
})

test("the other picture and parts are offered here only if their data is here", () => {
  const offer = (here, zooms) => (changes) =>
    offers({ either: { here }, drags: true, zooms }, changes)
  assert.deepEqual([true, false].map((here) => offer(here)({ picture: "lines" })), [true, false])
  assert.deepEqual([{}, undefined].map((zooms) => offer(true, zooms)({ zoom: "0,1,0,1" })),
    [true, false])
  assert.equal(offer(true)({ head: "1" }), undefined)
})
