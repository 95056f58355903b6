import assert from "node:assert/strict"
import { test } from "node:test"

import {
  apart, arrow, describeMove, fine, followed, mixed, point, positionOf, reach, snapped, ticks,
  clamped,
} from "../../gpt2viz/app/scripts/arrows.js"

test("a plane shows all its points, with room to the lower left if one lies there", () => {
  assert.deepEqual(reach([[.7, .7], [.9, .1]]), { low: -.45, high: 1.5 })
  assert.deepEqual(reach([[.7, -.7], [.9, .1]]), { low: -1.5, high: 1.5 })
  assert.deepEqual(reach([[0, 0]]), { low: -.045, high: .15 })
  assert.deepEqual(reach([[-100, 40]]), { low: -150, high: 150 })
  for (let n = 0; n < 200; n++) {
    const points = [1, 2, 3].map(() => [0, 0].map(() => (Math.random() - .4) * 10 ** (n % 5 - 2)))
    const box = reach(points)
    for (const x of points.flatMap((at) => positionOf(at, box))) assert.ok(x > 0 && x < 100, points)
  }
})

test("positions and points convert back and forth, with y upwards", () => {
  const box = { low: -.75, high: 1.5 }
  assert.deepEqual(positionOf([-.75, 1.5], box), [0, 0])
  assert.deepEqual(positionOf([1.5, -.75], box), [100, 100])
  const [x, y] = point(positionOf([.3, -.2], box), box)
  assert.ok(Math.abs(x - .3) < 1e-12 && Math.abs(y + .2) < 1e-12)
})

test("a pointer snaps to round numbers within the tables' limits", () => {
  assert.deepEqual([1.5, 7, 10, 150].map((high) => fine({ high })), [.05, .05, .5, 5])
  assert.deepEqual(snapped([.7312, -.01], .05), [.75, 0])
  assert.ok(Object.is(snapped([0, -.01], .05)[1], 0)) // not −0
  assert.deepEqual(clamped([.1 + .2, -100.5], 100), [.3, -100])
})

test("an axis has a few ticks at round numbers", () => {
  const at = (low, high) => ticks({ low, high }).map(([, text]) => text)
  assert.deepEqual(at(-.75, 1.5), ["−0.5", "0.0", "0.5", "1.0", "1.5"])
  assert.deepEqual(at(-1.5, 5), ["0", "2", "4"])
})

test("lists of numbers are interpolated", () => {
  assert.deepEqual(mixed([[0, 2], [4, 4]], [[1, 4], [4, 0]], .5), [[.5, 3], [4, 2]])
  assert.deepEqual(mixed([0, 2], [1, 4], 1), [1, 4])
})

test("an arrow has its head at its end; an arrow of no length isn't drawn", () => {
  assert.equal(arrow([50, 50], [50, 50]), "")
  const ends = arrow([0, 100], [30, 60]).match(/-?[\d.]+/g).map(Number)
  assert.deepEqual(ends.slice(0, 2), [0, 100])
  assert.deepEqual(ends.slice(4, 6), [30, 60])
})

test("overlapping labels are moved below each other", () => {
  const labels = [{ at: [10, 12], text: "a" }, { at: [50, 12], text: "b" },
    { at: [12, 9], text: "c" }, { at: [20, 90], text: "d" }, { at: [30, 13], text: "e" }]
  const positions = Object.fromEntries(apart(labels).map(({ at, text }) => [text, at]))
  assert.deepEqual(positions,
    { c: [12, 9], a: [10, 15], b: [50, 12], e: [30, 21], d: [20, 90] })
})

test("a move is described with its results", () => {
  const data = { words: ["crane", "ate"], axes: ["animal", "machine"], scores: [.98, -.001],
    arrows: [[.7, .7], [.9, -.1], [0, 2]], weights: [1, 0], values: [[1, 2], [-.5, 0]],
    ends: [[0, 0], [1, 2], [1, -2.349]] }
  assert.equal(describeMove(data, 0),
    "Query of crane: animal 0.7, machine 0.7. Weights: crane 1.00, ate 0.00.")
  assert.equal(describeMove(data, 1),
    "Key of crane: animal 0.9, machine −0.1. Score 0.98, weight 1.00.")
  assert.equal(describeMove(data, 2), "Key of ate: animal 0, machine 2. Score 0.00, weight 0.00.")
  assert.equal(describeMove(data, 4),
    "Value of ate: animal −0.5, machine 0. New crane: animal 1.00, machine −2.35.")
})

test("scores, weights and sums are recomputed while a point moves", () => {
  const arrows = [[1, 0], [Math.log(3), 5], [0, 1]]
  const results = followed({ arrows, values: [[4, 0], [0, 4]], heat: 1 })
  assert.deepEqual(results.scores, [Math.log(3), 0])
  assert.deepEqual(results.shadows, [[Math.log(3), 0], [0, 0]])
  results.weights.forEach((x, n) => assert.ok(Math.abs(x - [.75, .25][n]) < 1e-12))
  results.ends.flat().forEach((x, n) => assert.ok(Math.abs(x - [0, 0, 3, 0, 3, 1][n]) < 1e-12))
  const none = followed({ arrows: [[0, 0], [1, 1]], values: [[2, -2]], heat: .05 })
  assert.deepEqual([none.shadows, none.weights, none.ends], [[[0, 0]], [1], [[0, 0], [2, -2]]])
})
