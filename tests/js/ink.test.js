import assert from "node:assert/strict"
import { test } from "node:test"

import { ink } from "../../gpt2viz/app/scripts/ink.js"

test("a number in a cell can be read on its colour, whatever that is", () => {
  const share = (c) => c / 255 <= .04045 ? c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4
  const light = ([r, g, b]) => .2126 * share(r) + .7152 * share(g) + .0722 * share(b)
  const pale = [], steps = Array.from({ length: 18 }, (_, n) => 15 * n)
  for (const r of steps) for (const g of steps) for (const b of steps) {
    const word = parseInt(ink([r, g, b]).slice(1), 16)
    const ends = [light([r, g, b]), light([word >> 16, word >> 8 & 255, word & 255])]
    if ((Math.max(...ends) + .05) / (Math.min(...ends) + .05) < 4.5) pale.push([r, g, b])
  }
  assert.deepEqual(pale, []) // WCAG 2.2, 1.4.3
})
