import assert from "node:assert/strict"
import { beforeEach, test } from "node:test"

import keep, { predicted, together } from "../../gpt2viz/app/scripts/progress.js"

const KNOWN = ["a1", "a2", "b1"], ROWS = ["r", "s"]

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
  const none = { guesses: {}, known: KNOWN, rows: ROWS, read: false, forgotten: 0 }
  const data = { answered, ...none, ...more }
  keep({ data, setTriggerValue: (...what) => found.push(what) })
  return found
}

test("what either knows is kept once, of questions that there are", () => {
  const found = together({ answered: { a: ["a1"], b: [] }, known: KNOWN },
    { a: ["a2", "a1", "gone"], b: "b1", c: ["b1"] })
  assert.deepEqual(found, { a: ["a1", "a2"], b: [] })
})

test("what only the browser has is sent, until the server has asked", () => {
  const kept = JSON.stringify({ answered: { a: ["a2"] } })
  const both = { answered: { a: ["a1", "a2"] }, guesses: {} }
  assert.deepEqual(sent({ a: ["a1"] }, kept), [["found", both]])
  assert.deepEqual(sent({ a: ["a1"] }, kept, { read: true }), [])
  assert.deepEqual(sent({ a: ["a1", "a2"] }, kept), [])
  assert.deepEqual(JSON.parse(stored["gpt2viz-textbook"]), both)
})

test("answers that were kept before there were guesses are read", () => {
  const all = { answered: { a: ["a1"] }, guesses: {} }
  assert.deepEqual(sent({ a: [] }, JSON.stringify({ a: ["a1"] })), [["found", all]])
})

test("guesses are kept, sent once, and the server's go first", () => {
  const kept = JSON.stringify({ answered: {}, guesses: { r: [40, 60], s: [], gone: [100] } })
  const found = { r: [50, 50], s: [] }
  assert.deepEqual(sent({ a: [] }, kept, { guesses: { r: [50, 50] } }),
    [["found", { answered: { a: [] }, guesses: found }]])
  assert.deepEqual(JSON.parse(stored["gpt2viz-textbook"]).guesses, found)
  assert.deepEqual(sent({ a: [] }, kept, { guesses: found }), [])
  assert.deepEqual(predicted({ rows: ROWS }, { r: "x", s: null }), {})
})

test("what is no progress is left alone", () => {
  const junk = ["{", "x", "null", "[]", "7", '{"a": 5}', '{"a": "a1"}',
    '{"a": [7, null, "no_such"]}', '{"answered": 5, "guesses": "r"}']
  for (const kept of junk) {
    assert.deepEqual(sent({ a: [] }, kept), [])
    assert.deepEqual(JSON.parse(stored["gpt2viz-textbook"]), { answered: { a: [] }, guesses: {} })
    assert.deepEqual(sent({ a: ["a1"] }, kept), [])
  }
})

test("a browser that keeps nothing is no error", () => {
  globalThis.localStorage = { getItem() { throw Error() }, setItem() { throw Error() } }
  assert.deepEqual(sent({ a: ["a1"] }), [])
})

test("what was forgotten stays forgotten", () => {
  assert.deepEqual(sent({ a: [] }, JSON.stringify({ a: ["a1"] }), { forgotten: 1 }), [])
  assert.deepEqual(JSON.parse(stored["gpt2viz-textbook"]), { answered: { a: [] }, guesses: {} })
})
