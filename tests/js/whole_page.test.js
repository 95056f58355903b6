import assert from "node:assert/strict"
import { test } from "node:test"

import ask from "../../gpt2viz/app/scripts/whole_page.js"

test("its part of the page is asked for each time that it is drawn", () => {
  const sent = []
  for (let n = 0; n < 2; n += 1) ask({ setTriggerValue: (...what) => sent.push(what) })
  assert.deepEqual(sent, [["drawn", true], ["drawn", true]])
})
