import assert from "node:assert/strict"
import { test } from "node:test"

import { axisOf } from "../../gpt2viz/app/scripts/chart.js"
import { figureOf } from "../../gpt2viz/app/scripts/figure.js"

const colors = { accent: "blue", second: "red", grid: "grey", sources: ["orange", "blue"] }
const barsOf = (across, ...cases) => figureOf({ kind: "Bars", names: ["x".repeat(30), "b"],
  ticks: [], quantity: "%", across, colors, cases: cases.map((values, role) => ({ name: "",
    at: [0, 1], values, role, written: ["1", "2"], hover: ["a", "b"], rest: role === 1 })) })

test("bars lie from the top down, or stand from left to right, in their cases' colours", () => {
  const lying = barsOf(true, [.5, .1]), standing = barsOf(false, [.5, .1], [.2, .3])
  assert.deepEqual(axisOf("y", lying).ends, [1.5, -.5])
  assert.deepEqual(axisOf("x", standing).ends, [-.5, 1.5])
  assert.equal(axisOf("x", lying).ends[1].toFixed(4), "0.5275", "room for the numbers")
  assert.deepEqual([lying.data[0].x, standing.data[0].y], [[.5, .1], [.5, .1]])
  assert.equal(lying.layout.yaxis.ticktext[0], `${"x".repeat(14)}…${"x".repeat(13)}`)
  const look = ({ marker }) => [marker.color, marker.pattern.shape]
  assert.deepEqual(lying.data.map(look), [["blue", ""]])
  assert.deepEqual(standing.data.map(look), [["orange", ""], ["blue", ["\\", "/"]]])
})

test("a point's name is on the side away from its nearest neighbour", () => {
  const points = { x: [0, 1, 9, null], y: [0, .5, 9, 8], names: ["a", "b", "c", "d"], made: [1] }
  const { data: [drawn], layout } = figureOf({ kind: "Points", ...points, colors, height: 99 })
  assert.deepEqual(drawn.textposition.slice(0, 2), ["middle left", "middle right"])
  assert.deepEqual(drawn.marker.symbol.slice(0, 2), ["circle", "diamond-open"])
  assert.deepEqual([drawn.hovertext[1], layout.height], ["b\n1, 0.5", 99])
})

test("a reading without a number is drawn with its rank alone", () => {
  const reading = { name: "", rank: [1200], entropy: [null], roles: ["accent", "second"] }
  const lens = { kind: "Lens", readings: [reading], rows: ["layer 0"], row: 27, titles: ["r", "e"] }
  const { data, layout } = figureOf({ ...lens, colors })
  assert.deepEqual(data.flatMap(({ hovertext }) => hovertext),
    ["layer 0\nrank 1,200", "layer 0\nNaN bits"])
  assert.equal(layout.height, 20 + 27 + 60)
})
