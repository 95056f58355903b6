import assert from "node:assert/strict"
import { test } from "node:test"

import { fixed, make, makeSvg } from "../../gpt2viz/app/scripts/make.js"

test("an element is appended, with text and class if given", () => {
  globalThis.document = { createElement: (tag) => ({ tag }) }
  const into = []
  into.append = into.push
  assert.deepEqual(make("b", into, "<i>"), { tag: "b", textContent: "<i>" })
  assert.deepEqual(make("i", into, "", "last"), { tag: "i", className: "last" })
  assert.deepEqual(into.map(({ tag }) => tag), ["b", "i"])
})

test("an SVG element has its attributes", () => {
  const page = { createElementNS: (space, tag) => ({ space, tag,
    setAttribute(name, value) { this[name] = value } }) }
  globalThis.document = page
  assert.deepEqual({ ...makeSvg("path", { d: "M0 0" }), setAttribute: 0 },
    { space: "http://www.w3.org/2000/svg", tag: "path", d: "M0 0", setAttribute: 0 })
})

test("a number that rounds to 0 has no sign", () => {
  assert.deepEqual([-.004, -.006, 1.25, -12].map((x) => fixed(x, 2)),
    ["0.00", "−0.01", "1.25", "−12.00"])
})
