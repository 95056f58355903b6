import assert from "node:assert/strict"
import { beforeEach, test } from "node:test"

import keep, { together } from "../../gpt2viz/app/components/progress/component.js"

const KNOWN = ["a1", "a2", "b1"]

let stored
beforeEach(() => {
  stored = {}
  globalThis.localStorage = {
    getItem: (name) => stored[name] ?? null,
    setItem: (name, text) => { stored[name] = text },
  }
})

// What the component sends for some answers of the server's and of the browser's.
function sent(answered, kept, more = {}) {
  if (kept !== undefined) stored["gpt2viz-textbook"] = kept
  const found = []
  const data = { answered, known: KNOWN, read: false, forgotten: 0, ...more }
  keep({ data, setTriggerValue: (...what) => found.push(what) })
  return found
}

test("what either knows is kept once, of questions that there are", () => {
  const found = together({ answered: { a: ["a1"], b: [] }, known: KNOWN },
    { a: ["a2", "a1", "gone"], b: "b1", c: ["b1"] })
  assert.deepEqual(found, { a: ["a1", "a2"], b: [] })
})

test("what only the browser has is sent, until the server has asked", () => {
  const kept = JSON.stringify({ a: ["a2"] })
  assert.deepEqual(sent({ a: ["a1"] }, kept), [["found", { a: ["a1", "a2"] }]])
  assert.deepEqual(sent({ a: ["a1"] }, kept, { read: true }), [])
  assert.deepEqual(sent({ a: ["a1", "a2"] }, kept), [])
  assert.deepEqual(JSON.parse(stored["gpt2viz-textbook"]), { a: ["a1", "a2"] })
})

test("what is no progress is left alone", () => {
  for (const kept of ["{", "null", "7", '{"a": 5}']) assert.deepEqual(sent({ a: ["a1"] }, kept), [])
})

test("a browser that keeps nothing is no error", () => {
  globalThis.localStorage = { getItem() { throw Error() }, setItem() { throw Error() } }
  assert.deepEqual(sent({ a: ["a1"] }), [])
})

test("what was forgotten stays forgotten", () => {
  assert.deepEqual(sent({ a: [] }, JSON.stringify({ a: ["a1"] }), { forgotten: 1 }), [])
  assert.deepEqual(JSON.parse(stored["gpt2viz-textbook"]), { a: [] })
})
