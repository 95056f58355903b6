import assert from "node:assert/strict"
import { test } from "node:test"

import { hear } from "../../gpt2viz/notebook/clicks.js"

test("messages through a frame's port become the widget's state", async () => {
  const values = {}, saved = [], got = {}
  const model = { set: (name, value) => { values[name] = value },
    save_changes: () => saved.push({ ...values }) }
  hear(model, { contentWindow: { postMessage: (...sent) => { got.sent = sent } } })
  const [, , [port]] = got.sent
  port.postMessage([1, 2, null, 3])
  while (!saved.length) await new Promise(setImmediate)
  assert.deepEqual(saved, [{ clicked: [1, 2, null, 3] }])
  port.close()
})
