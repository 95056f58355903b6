import assert from "node:assert/strict"
import { test } from "node:test"

import { changes, look, shown, step } from "../../gpt2viz/app/scripts/player.js"

test("a step ends at the first and the last frame", () => {
  assert.deepEqual([step(0, 1, 3), step(2, 1, 3), step(0, -1, 3), step(0, 1, 1)], [1, 2, 0, 0])
})

test("the reader goes before the answer, and the address before the reader", () => {
  const frames = [1, 2, 3, 4], known = { data: { at: 2, frames }, at: 3, sent: [1, 3] }
  assert.equal(shown(null, { at: 2, frames }), 2)
  assert.equal(shown(known, { at: 2, frames }), 3) // nothing new
  assert.equal(shown(known, { at: 1, frames }), 3) // what was sent before they went on
  assert.equal(shown(known, { at: 0, frames }), 0) // somebody went back in the browser
  assert.equal(shown(known, { at: 1, frames: [1, 2] }), 1) // another model
})

test("marks are known by their keys: some come, some go, the others glide", () => {
  const marks = ["b", "c"].map((key) => ({ key }))
  assert.deepEqual(changes(["a", "b"], marks), { added: ["c"], removed: ["a"] })
})

test("a mark's position and colour become its style", () => {
  const mark = { box: [.25, 2, .5, 1.5], fill: "#112233", ink: "#ffffff" }
  assert.deepEqual(look(mark), { left: "25%", top: "3.2rem", width: "50%",
    height: `${1.6 * 1.5}rem`, background: "#112233", color: "#ffffff", opacity: "1" })
})
