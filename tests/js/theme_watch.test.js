import assert from "node:assert/strict"
import { test } from "node:test"

import watch, { isDark } from "../../gpt2viz/app/scripts/theme_watch.js"

test("a background is dark below the middle of its three channels", () => {
  assert.ok(isDark([18, 20, 28]) && isDark([0, 0, 0]) && isDark([127, 128, 128]))
  assert.ok(!isDark([255, 255, 255]) && !isDark([128, 128, 128]))
})

test("only a change is told", () => {
  const sent = []
  const pen = { fillRect() {}, getImageData: () => ({ data: [18, 20, 28, 255] }) }
  globalThis.getComputedStyle = () => ({ getPropertyValue: () => "#12141c" })
  globalThis.document = { createElement: () => ({ getContext: () => pen }) }
  const told = (...what) => sent.push(what)
  for (const dark of [true, false])
    watch({ data: { dark, wanted: {} }, parentElement: {}, setTriggerValue: told })
  assert.deepEqual(sent, [["changed", true]])
})

test("a theme that is wanted is stored, and the page loaded again", () => {
  const stored = {}
  let loaded = 0
  globalThis.localStorage = { setItem: (name, value) => { stored[name] = value } }
  globalThis.location = { reload: () => { loaded += 1 } }
  const wanted = { "stActiveTheme-/-v2": '"Dark"', "stActiveTheme-/shapes-v2": '"Dark"' }
  watch({ data: { dark: false, wanted }, parentElement: {}, setTriggerValue: assert.fail })
  assert.deepEqual([stored, loaded], [wanted, 1])
})
