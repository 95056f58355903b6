import assert from "node:assert/strict"
import { test } from "node:test"

import write from "../../gpt2viz/export/chart_svg.js"

test("the page's text becomes the drawn charts in JSON", () => {
  const page = { body: { textContent: "" } }
  write(page, { pictures: [], width: 720 })
  assert.deepEqual(JSON.parse(decodeURIComponent(page.body.textContent)), [])
})
