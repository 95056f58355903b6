import assert from "node:assert/strict"
import { test } from "node:test"

import keep, { weightsOf } from "../../gpt2viz/app/scripts/head_numbers.js"
import { message } from "../../gpt2viz/notebook/attention.js"

test("the weights that came last are there by their name, bit by bit", () => {
  assert.ok(!weightsOf(""))
  const values = Float32Array.of(.1, NaN, -Infinity, 1)
  assert.equal(keep({ data: message({ name: "one" }, values) }), undefined)
  assert.deepEqual(weightsOf("one"), values)
  assert.equal(weightsOf("other"), null)
  keep({ data: message({ name: "other" }, Float32Array.of(2)) })
  assert.equal(weightsOf("one"), null)
  assert.deepEqual([...weightsOf("other")], [2])
})
