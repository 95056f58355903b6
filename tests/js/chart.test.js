import assert from "node:assert/strict"
import { test } from "node:test"

import {
  axisOf, layOut, namedOf, roundNumbers, targetAt, ticksOf,
} from "../../gpt2viz/app/scripts/chart.js"

const figureOf = (layout, ...data) => ({ layout, data })
const writtenOf = (ticks) => ticks.map(([, written]) => written)

test("ticks are round numbers within the ends, with enough digits to differ", () => {
  assert.deepEqual(roundNumbers([0, 60], 6), [[0, "0"], [10, "10"], [20, "20"], [30, "30"],
    [40, "40"], [50, "50"], [60, "60"]])
  assert.deepEqual(writtenOf(roundNumbers([-.5, .5], 4)), ["−0.5", "0.0", "0.5"])
  assert.deepEqual(writtenOf(roundNumbers([0, 40_000], 4)), ["0", "10k", "20k", "30k", "40k"])
  assert.deepEqual(writtenOf(roundNumbers([0, 4.9], 2)), ["0", "2", "4"])
  assert.deepEqual(roundNumbers([3, 3], 4), [])
})

test("the ends of an axis leave room, begin at 0 on request, or are the given ones", () => {
  const curve = { mode: "lines", x: [1, 3], y: [2, 4] }
  const ends = (yaxis) => axisOf("y", figureOf({ yaxis }, curve)).ends.map((end) => end.toFixed(2))
  assert.deepEqual(ends({}), ["1.89", "4.11"])
  assert.deepEqual(ends({ rangemode: "tozero" }), ["0.00", "4.22"])
  assert.deepEqual(ends({ range: [null, 5] })[1], "5.00")
  assert.deepEqual(axisOf("x", figureOf({}, curve)).ends, [1, 3])
  assert.deepEqual(axisOf("y", figureOf({}, { x: [], y: [] })).ends, [0, 1], "nothing to draw")
  assert.deepEqual(axisOf("x", figureOf({}, { x: [3], y: [null] })).ends, [2, 4])
  const nothing = figureOf({ yaxis: { rangemode: "tozero" } }, { x: [1, 2], y: [0, 0] })
  assert.deepEqual(axisOf("y", nothing).ends, [0, 1])
})

test("categories keep their order, and a logarithmic axis has at least two numbers", () => {
  const curve = { mode: "lines", x: ["b", "a", "b"], y: [1, 20, 3000] }
  const figure = figureOf({ yaxis: { type: "log" } }, curve)
  const ranks = axisOf("x", figureOf({ xaxis: { type: "log" } }, { x: [1, 1, 6], y: [0, 1, 2] }))
  assert.deepEqual(writtenOf(ticksOf(ranks, 100, 10)), ["1", "2", "5"])
  assert.deepEqual(ticksOf(axisOf("x", figure), 100, 10), [[0, "b"], [1, "a"]])
  assert.deepEqual(axisOf("x", figure).numberOf("a"), 1)
  assert.deepEqual(writtenOf(ticksOf(axisOf("y", figure), 100, 10)), ["1", "10", "100", "1k"])
})

test("the axes of a subplot depend only on its own curves", () => {
  const figure = figureOf({ xaxis2: { domain: [.5, 1] } }, { mode: "lines", x: [1, 2], y: [0, 1] },
    { mode: "lines", x: [7, 9], y: [0, 1], xaxis: "x2" })
  assert.deepEqual(axisOf("x2", figure).ends, [7, 9])
  assert.deepEqual(axisOf("x2", figure).domain, [.5, 1])
  assert.deepEqual(axisOf("x", figure).ends, [1, 2])
})

test("an axis without a curve is drawn; its labels are horizontal on request, and fit", () => {
  const context = { measureText: ({ length }) => ({ width: 9 * length }) }
  globalThis.document = { createElement: () => ({ getContext: () => context }) }
  const names = { range: [0, 2], tickvals: [0, 1, 2], ticktext: ["12,345", "23,456", "34,567"] }
  const layout = { height: 99, margin: { l: 9, r: 9, t: 9, b: 9, autoexpand: false } }
  const axisWith = (more) =>
    layOut(figureOf({ ...layout, xaxis: { ...names, ...more } }), 90, false).plots[0].x
  assert.deepEqual([{}, { tickangle: 0 }].map((more) => axisWith(more).turned), [true, false])
  const many = axisWith({ tickvals: [...Array(40).keys()], ticktext: Array(40).fill("12,345") })
  assert.deepEqual(many.ticks.map(([at]) => at), [0, 8, 16, 24, 32])
})

test("the legend lists named traces, if there are several", () => {
  const [a, b] = [{ name: "a" }, { name: "b", showlegend: false }]
  assert.deepEqual(namedOf(figureOf({}, a)), [])
  assert.deepEqual(namedOf(figureOf({ showlegend: true }, a, b)), [a])
  assert.deepEqual(namedOf(figureOf({}, a, { name: "c" }, b)), [a, { name: "c" }])
  assert.deepEqual(namedOf(figureOf({ showlegend: false }, a, { name: "c" })), [])
})

test("the pointer's target is the bar under it, or the nearest point, drawn last", () => {
  const bar = { x: 0, y: 0, w: 10, h: 100, box: true }, point = { x: 40, y: 50, w: 0, h: 0 }
  const over = { x: 36, y: 46, w: 8, h: 8 }
  assert.equal(targetAt([bar, point], 5, 90), bar)
  assert.equal(targetAt([bar, point], 30, 50), point)
  assert.equal(targetAt([bar, point], 80, 50), undefined)
  assert.equal(targetAt([over, point], 40, 50), point)
  assert.equal(targetAt([point, over], 40, 50), over)
})
