import assert from "node:assert/strict"
import { test } from "node:test"

import { afterAnswer, changes, look, step } from "../../gpt2viz/app/scripts/player.js"

test("steps stop at the first and the last frame", () => {
  assert.deepEqual([step(0, 1, 3), step(2, 1, 3), step(0, -1, 3), step(0, 1, 1)], [1, 2, 0, 0])
})

test("the reader's step wins over a late answer, and the address over the reader", () => {
  const known = { at: 3, count: 4, answered: 2, sent: [1, 3] }
  const shown = (before, at, count = 4) => afterAnswer(before, { at, count }).at
  assert.equal(shown(null, 2), 2)
  assert.equal(shown(known, 2), 3) // nothing new
  assert.equal(shown(known, 1), 3) // what was sent before they went on
  assert.equal(shown(known, 0), 0) // somebody went back in the browser
  assert.equal(shown(known, 1, 2), 1) // another model
  const late = afterAnswer(known, { at: 1, count: 4 }) // the answer to 3 is still to come
  assert.deepEqual(late, { at: 3, count: 4, answered: 1, sent: [3] })
  assert.equal(shown(late, 3), 3)
})

test("marks are matched by key: some are added, some removed, the others move", () => {
  const marks = ["b", "c"].map((key) => ({ key }))
  assert.deepEqual(changes(["a", "b"], marks), { added: ["c"], removed: ["a"] })
})

test("a mark's box and colours become its style", () => {
  const mark = { box: [.25, 2, .5, 1.5], fill: "#112233", ink: "#ffffff" }
  assert.deepEqual(look(mark), { left: "25%", top: "3.2rem", width: "50%",
    height: `${1.6 * 1.5}rem`, background: "#112233", color: "#ffffff", opacity: "1" })
})
