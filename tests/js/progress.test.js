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

// What the component sends for answers known to the server and to the browser.
function sent(answered, text, more = {}) {
  if (text !== undefined) stored["gpt2viz-textbook"] = text
  const messages = []
  const none = { guesses: {}, known: KNOWN, rows: ROWS, read: false, forgotten: 0 }
  const data = { answered, ...none, ...more }
  keep({ data, setTriggerValue: (...what) => messages.push(what) })
  return messages
}

test("answers known to either are stored once, if their question exists", () => {
  const merged = together({ answered: { a: ["a1"], b: [] }, known: KNOWN },
    { a: ["a2", "a1", "gone"], b: "b1", c: ["b1"] })
  assert.deepEqual(merged, { a: ["a1", "a2"], b: [] })
})

test("answers that only the browser has are sent until the server has read them", () => {
  const text = JSON.stringify({ answered: { a: ["a2"] } })
  const both = { answered: { a: ["a1", "a2"] }, guesses: {} }
  assert.deepEqual(sent({ a: ["a1"] }, text), [["stored", both]])
  assert.deepEqual(sent({ a: ["a1"] }, text, { read: true }), [])
  assert.deepEqual(sent({ a: ["a1", "a2"] }, text), [])
  assert.deepEqual(JSON.parse(stored["gpt2viz-textbook"]), both)
})

test("guesses are stored and sent once, and the server's take precedence", () => {
  const text = JSON.stringify({ answered: {}, guesses: { r: [40, 60], s: [], gone: [100] } })
  const guesses = { r: [50, 50], s: [] }
  assert.deepEqual(sent({ a: [] }, text, { guesses: { r: [50, 50] } }),
    [["stored", { answered: { a: [] }, guesses }]])
  assert.deepEqual(JSON.parse(stored["gpt2viz-textbook"]).guesses, guesses)
  assert.deepEqual(sent({ a: [] }, text, { guesses }), [])
  assert.deepEqual(predicted({ rows: ROWS }, { r: "x", s: null }), {})
})

test("stored data that is no progress is ignored", () => {
  const junk = ["{", "x", "null", "[]", "7", '{"a": 5}', '{"a": "a1"}',
    '{"a": [7, null, "no_such"]}', '{"answered": 5, "guesses": "r"}']
  for (const text of junk) {
    assert.deepEqual(sent({ a: [] }, text), [])
    assert.deepEqual(JSON.parse(stored["gpt2viz-textbook"]), { answered: { a: [] }, guesses: {} })
    assert.deepEqual(sent({ a: ["a1"] }, text), [])
  }
})

test("a browser without storage is no error", () => {
  globalThis.localStorage = { getItem() { throw Error() }, setItem() { throw Error() } }
  assert.deepEqual(sent({ a: ["a1"] }), [])
})

test("forgotten answers stay forgotten", () => {
  assert.deepEqual(sent({ a: [] }, JSON.stringify({ a: ["a1"] }), { forgotten: 1 }), [])
  assert.deepEqual(JSON.parse(stored["gpt2viz-textbook"]), { answered: { a: [] }, guesses: {} })
})
