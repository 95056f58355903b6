import assert from "node:assert/strict"
import { test } from "node:test"

import { weightsOf } from "../../gpt2viz/app/components/every_head.js"
import bring from "../../gpt2viz/app/components/head_numbers/component.js"
import { message } from "../../gpt2viz/notebook/attention.js"

test("the numbers are kept for other scripts, bit by bit", () => {
  const values = Float32Array.of(.1, NaN, -Infinity, 1)
  assert.equal(bring({ data: message({ name: "one" }, values) }), undefined)
  assert.deepEqual(weightsOf("one"), values)
})
