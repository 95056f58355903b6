import assert from "node:assert/strict"
import { test } from "node:test"

import { arrow, pieces } from "../../gpt2viz/app/scripts/diagram.js"

const box = (left, top, right, bottom) =>
  ({ left, top, right, bottom, x: (left + right) / 2, y: (top + bottom) / 2 })

const WIDE = box(40, 0, 440, 30), NARROW = box(40, 60, 140, 90), LOW = box(40, 200, 440, 230)

// Where an arrow begins, and where its head points.
function ends(elements) {
  const numbers = ([, { d }]) => d.match(/-?[\d.]+/g).map(Number)
  const point = elements.find(([, { class: kind }]) => kind.endsWith(" head"))
  return { from: numbers(elements[0]).slice(0, 2), to: numbers(point).slice(0, 2) }
}

test("an arrow goes straight down at the middle of the narrower box", () => {
  for (const [a, b] of [[WIDE, NARROW], [box(40, 0, 140, 30), box(40, 60, 440, 90)]])
    assert.deepEqual(ends(arrow(a, b, "flow")), { from: [90, 30], to: [90, 60] })
})

test("the residual stream passes on the left and ends in a plus before its box", () => {
  const elements = arrow(NARROW, LOW, "residual")
  assert.deepEqual(ends(elements), { from: [40, 75], to: [40, 215] })
  const { cx, cy, r } = elements.find(([tag]) => tag === "circle")[1]
  assert.ok(cx + r < LOW.left && cy === LOW.y)
  assert.match(elements[0][1].d, /V207 /) // it comes down, then turns to the box
  assert.match(elements[0][1].d, /H18 /) // left of both boxes
})

test("a side path passes on the right of both boxes and points back", () => {
  const elements = arrow(NARROW, LOW, "side")
  assert.deepEqual(ends(elements), { from: [140, 75], to: [440, 215] })
  assert.match(elements[0][1].d, /H450 Q456,/)
})

test("an arrowhead points along its arrow", () => {
  const [, [, down]] = arrow(WIDE, NARROW, "flow")
  const [x, y, ...back] = down.d.match(/-?[\d.]+/g).map(Number)
  assert.deepEqual([x, y], [90, 60])
  assert.deepEqual(back.map((n) => n + 0), [-3.5, -6, 7, 0]) // its base lies above its tip
})

test("names break only after a dot or an underscore", () => {
  assert.deepEqual(pieces("attn.attend.masked_scores"), ["attn.", "attend.", "masked_", "scores"])
  assert.deepEqual(pieces("wte"), ["wte"])
})
