import assert from "node:assert/strict"
import { test } from "node:test"

import write from "../../gpt2viz/export/chart_svg.js"

test("a page's text becomes what it is given to draw", () => {
  const page = { body: { textContent: "" } }
  write(page, { figures: [], width: 720, ink: "#000000", grid: "#ffffff" })
  assert.deepEqual(JSON.parse(decodeURIComponent(page.body.textContent)), [])
})
