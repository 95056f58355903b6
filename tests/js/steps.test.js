import assert from "node:assert/strict"
import { test } from "node:test"

import {
  blended, both, codes, eased, fitting, logPositions, losses, nearest, overSteps, read,
} from "../../gpt2viz/app/scripts/steps.js"

test("weights are sent as integers up to 65,534, and NaN as 65,535", () => {
  const bytes = new Uint8Array(new Uint16Array([0, 65534, 32767, 65535]).buffer)
  const text = btoa(String.fromCharCode(...bytes))
  assert.deepEqual([...read(text)], [0, 1, .5, NaN])
})

// Two heads of 2 × 2, of which the second is chosen, with three shades.
const GRID = { rows: ["0 a", "1 b"], columns: ["0 a", "1 b"] }
const P = { hidden: "0100",
  map: { layers: 1, heads: 2, chosen: 1, rows: GRID.rows, shades: "abc" },
  large: { grids: [GRID], panels: [{ name: "then", grid: 0 }, { name: "now", grid: 0 }] } }
const THEN = Float32Array.of(9, 9, 9, 9, 1, .25, .5, 0), NOW = THEN.map((weight) => weight / 2)

test("a cell has the code of its weight, of the mask or of NaN", () => {
  assert.deepEqual([...codes(P, Float32Array.of(1, .2, NaN, .5, 0, NaN, .1, 0))],
    [2, 3, 4, 1, 0, 4, 0, 0])
  assert.ok(codes(P).every((code) => code > 5), "unread cells have no colour")
})

test("the chosen head is shown beside the same head of the final model", () => {
  const { values, panels, masked } = both(P, THEN, NOW)
  assert.deepEqual([...values], [1, .25, .5, 0, .5, .125, .25, 0])
  assert.deepEqual(panels.map(({ start, rows, title, empty }) => [start, rows, title, empty]), [
    [0, GRID.rows, "Head 0.1, at this checkpoint", ""],
    [4, GRID.rows, "in the final model, 0 to 1", ""]])
  assert.deepEqual([0, 1, 4, 5].map(masked), [false, true, false, true])
  assert.deepEqual(panels[1].hover.slice(0, 2), ["1.000 here, 0.500 in the final model", "masked"])
  const film = both(P, THEN, NOW, blended(THEN, NOW, .5))
  assert.deepEqual([.4, .6].map((share) => blended(undefined, NOW, share)), [undefined, NOW])
  assert.deepEqual([0, 1.25, 1.5, 2].map(eased), [0, 1.15625, 1.5, 2])
  assert.deepEqual([...film.values.subarray(0, 4)], [.75, .1875, .375, 0])
  assert.equal(film.panels[0].title, "Head 0.1, blended")
  assert.deepEqual(film.panels[1].hover, panels[1].hover, "hover keeps the checkpoint's numbers")
  const unread = both(P, undefined, NOW)
  assert.deepEqual(unread.panels.map(({ empty }) => empty), ["being read …", ""])
  assert.deepEqual([...unread.values], [0, 0, 0, 0, .5, .125, .25, 0])
})

test("steps are spaced by their logarithms, and the nearest step is found", () => {
  assert.deepEqual(logPositions([0, 9, 99]), [0, .5, 1])
  assert.deepEqual(logPositions([7]), [.5])
  assert.equal(nearest([0, 9, 99], .3), 1)
  assert.equal(nearest([0, 9, 99], .2), 0)
  assert.equal(nearest([0, 9, 99], 2), 2)
})

test("curves span all steps, and the legend has their values at one step", () => {
  const sent = { data: [{ name: "loss", x: [9, 99], y: [.5, 1.234] }], layout: { yaxis: {} } }
  const drawn = (at, wide) => overSteps(sent, [0, 9, 99], at, wide), late = drawn(2, 80)
  assert.deepEqual([0, 2].map((at) => drawn(at, 80).data[0].name), ["loss –", "loss 1.23"])
  assert.deepEqual(late.data[0].x, [.5, 1])
  assert.deepEqual(late.layout.xaxis.ticktext, ["0", "9", "99"])
  assert.deepEqual(drawn(2, 79).layout.xaxis.ticktext, ["0", "99"], "no step too near another")
})

test("of many rows as many are drawn as fit, including both ends", () => {
  assert.deepEqual(fitting(5, 10), [0, 1, 2, 3, 4])
  assert.deepEqual(fitting(49, 10), [0, 5, 11, 16, 21, 27, 32, 37, 43, 48])
  assert.deepEqual(fitting(1, 10), [0])
})

test("the sentence's loss is shown with that of the final model", () => {
  const p = { points: [null, { loss: 3.217 }, { loss: null }], final: { loss: 2.1 } }
  assert.equal(losses(p, 1), ": your sentence 3.22, at the end 2.10")
  assert.deepEqual([0, 2].map((n) => losses(p, n)), ["", ""])
  assert.equal(losses({ points: [{ loss: 3 }], final: { loss: null } }, 0), "")
})
