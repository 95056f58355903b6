import assert from "node:assert/strict"
import { test } from "node:test"

import {
  asLines, leftOut, line, middle, pitch, step, strongest, describeToken,
} from "../../gpt2viz/app/scripts/lines.js"
import { lineData, splitName } from "../../gpt2viz/app/scripts/matrices.js"

const tokens = (n) => Array.from({ length: n }, (_, index) => [index + 10, `t${index}`])

// One head over four queries and six keys; query 2 looks at all keys.
const ONE = {
  sources: [{ name: "Head 0", q: [0, 1, 2, 2, 2, 2, 2, 2], k: [0, 1, 0, 1, 2, 3, 4, 5],
    v: [1, 0.5, 0.1, 0.3, 0.05, 0.25, 0.2, 0.1] }],
  queries: tokens(4), keys: tokens(6), peak: 2, decimals: 2, colors: ["#123456", "#654321"],
  dashes: [[], [9, 6]],
}
const TWO = { ...ONE, sources: [...ONE.sources, { name: "Head 5", q: [3], k: [0], v: [0.75] }] }

test("a line goes from query to key, with a width in proportion to its weight", () => {
  const { d, ...attributes } = line(ONE, 0, 1)
  assert.deepEqual(d.match(/[\d.]+/g).map(Number), [0, 39, 50, 39, 50, 39, 100, 39]) // 26 a token
  assert.deepEqual([attributes["data-query"], attributes["data-key"]], [1, 1])
  assert.equal(attributes["stroke-width"], 0.6 + 6.4 / 4) // a quarter of the peak
  assert.deepEqual(line(ONE, 0, 5).d.match(/[\d.]+/g).map(Number), [0, 65, 50, 65, 50, 91, 100, 91])
})

test("line widths are capped at that of the largest weight", () => {
  const widths = [0, 2, 8].map((v) =>
    line({ ...ONE, sources: [{ q: [0], k: [0], v: [v] }] }, 0, 0)["stroke-width"])
  assert.deepEqual(widths, [0.6, 7, 7])
})

test("lines of several heads are offset, each with its own colour and dash", () => {
  const [first, second] = [0, 1].map((s) => middle(TWO, 3, s))
  assert.equal((first + second) / 2, 3.5 * 26)
  assert.ok(second - first > 1 && second - first < 13)
  const [a, b] = [line(TWO, 0, 0), line(TWO, 1, 0)]
  assert.deepEqual([a.stroke, b.stroke], ["#123456", "#654321"])
  assert.notEqual(a["stroke-dasharray"], b["stroke-dasharray"])
})

test("longer texts have a smaller line pitch", () => {
  assert.deepEqual([24, 25, 64, 65].map((n) => pitch({ queries: tokens(n) })), [26, 18, 18, 14])
})

test("a token's lines are sorted by strength", () => {
  assert.deepEqual(strongest(ONE.sources[0], "q", 2), [3, 5, 6, 2, 7, 4])
  assert.deepEqual(strongest(ONE.sources[0], "k", 0), [0, 2])
  assert.deepEqual(strongest(ONE.sources[0], "q", 3), [])
})

test("a token's description has four numbers and the count of the rest", () => {
  assert.deepEqual(describeToken(ONE, "q", 2), [
    "12 “t2” looks at",
    "11 “t1”: 0.300, 13 “t3”: 0.250, 14 “t4”: 0.200, 10 “t0”: 0.100 and 2 more",
  ])
  assert.deepEqual(describeToken(ONE, "k", 1),
    ["11 “t1” is looked at by", "11 “t1”: 0.500, 12 “t2”: 0.300"])
  const parts = describeToken({ ...ONE, ends: ["", ""], unit: " %" }, "q", 1)
  assert.deepEqual(parts, ["11 “t1” matches", "11 “t1”: 0.500 %"])
  const thin = { ...ONE, sources: [{ q: [0], k: [0], v: [0.04] }], decimals: 0, unit: " %" }
  assert.equal(describeToken(thin, "q", 0)[1], "10 “t0”: <0.1 %")
  assert.deepEqual(describeToken(TWO, "q", 3),
    ["13 “t3” looks at", "Head 0: nothing that is drawn", "Head 5: 10 “t0”: 0.750"])
})

test("arrow keys move between tokens and sides and stop at the ends", () => {
  assert.deepEqual(step(ONE, "q", 1, "ArrowDown"), ["q", 2])
  assert.deepEqual(step(ONE, "q", 1, "ArrowUp"), ["q", 0])
  assert.deepEqual(step(ONE, "q", 0, "ArrowUp"), ["q", 0])
  assert.deepEqual(step(ONE, "q", 3, "ArrowDown"), ["q", 3])
  assert.deepEqual(step(ONE, "k", 2, "End"), ["k", 5])
  assert.deepEqual(step(ONE, "k", 2, "Home"), ["k", 0])
  assert.deepEqual(step(ONE, "q", 2, "ArrowRight"), ["k", 2])
  assert.deepEqual(step(ONE, "k", 5, "ArrowLeft"), ["q", 3]) // there are fewer queries
  assert.deepEqual(step(ONE, "k", 5, "ArrowRight"), ["k", 5])
  assert.equal(step(ONE, "q", 1, "a"), null)
})

test("a cell at the threshold has a line, despite rounding; a masked one has none", () => {
  const matrix = { name: "", values: Float32Array.of(.01, .1, .5), hidden: [false, false, true] }
  const most = { lines: 9, atRest: 1 }
  const drawn = asLines([matrix], 3, { peak: 1, thresholds: [.01, 1], most })
  assert.deepEqual([drawn.sources[0].k, drawn.lost], [[0, 1], 0])
  assert.match(leftOut({ ...drawn, unit: " %" }), /^While no token .* 1 % up .* A line's width/)
  assert.match(leftOut({ ...drawn, lost: 2e-4 }), /^Lines below 0.01 .* <0.1 % of .* from 1 up/)
})

test("a name splits into position and label, which may be a number itself", () => {
  assert.deepEqual(["12 ·cat", "7 7 up", "3"].map(splitName), [[12, "·cat"], [7, "7 up"], [3, "3"]])
})

test("panels become matrices of one picture, with the chosen row", () => {
  const grid = { rows: ["4 a", "5 b"], columns: ["0 c"], quantity: "weight", frame: [1, 1, 0, 0] }
  const p = { panels: [{ ...grid, start: 0 }, { ...grid, start: 2 }],
    values: Float32Array.of(.5, 1, .25, 0), masked: (n) => n === 3 }
  const data = lineData(p, [1, 0], ["B", "A"], { hint: "h", colors: ["#1", "#2", "#3"] })
  assert.deepEqual([data.hint, data.quantity, data.chosen], ["h", "weight", 1])
  assert.deepEqual([data.queries, data.keys], [[[4, "a"], [5, "b"]], [[0, "c"]]])
  assert.deepEqual(data.colors, ["#1", "#2"])
  assert.deepEqual(data.matrices.map(({ name, values, hidden }) => [name, [...values], hidden]),
    [["B", [.25, 0], [false, true]], ["A", [.5, 1], [false, false]]])
})

test("no row is chosen if a column or nothing is framed", () => {
  const panel = { rows: ["0 a", "1 b"], columns: ["0 a"], start: 0 }
  for (const frame of [null, [0, 1, 0, 0]]) {
    const p = { panels: [{ ...panel, frame }], values: new Float32Array(2), masked: () => false }
    assert.equal(lineData(p, [0], ["A"], { colors: [] }).chosen, -1)
  }
})
