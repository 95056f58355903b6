import assert from "node:assert/strict"
import { test } from "node:test"

import { keepWeights, weightsOf } from "../../gpt2viz/app/components/every_head.js"

test("weights are found by their name, the last ones that came", () => {
  const page = {}
  assert.equal(weightsOf("a", page), null)
  keepWeights("a", [1], page)
  assert.deepEqual(weightsOf("a", page), [1])
  assert.equal(weightsOf("b", page), null)
  keepWeights("b", [2], page)
  assert.equal(weightsOf("a", page), null)
  assert.deepEqual(weightsOf("b", page), [2])
})

test("nothing has no name", () => {
  const page = {}
  keepWeights("", [1], page)
  assert.ok(!weightsOf("", page))
})
