import assert from "node:assert/strict"
import { test } from "node:test"

import {
  attend, columns, layerNorm, likeliest, linear, softmax,
} from "../../gpt2viz/notebook/network.js"

// tests/notebook/test_live_page.py compares whole runs with NumPy's; here are the ends of loops.

test("a linear layer uses every row of its matrix, for any number of rows", () => {
  const x = Float32Array.of(1, 2, 3, 4)
  for (const N of [1, 3, 4, 5, 6]) {
    const W = Float32Array.from({ length: 2 * N }, (_, n) => n), b = new Float32Array(N).fill(.5)
    const row = ([p, q]) => Array.from({ length: N }, (_, n) => 2 * n * p + (2 * n + 1) * q + .5)
    assert.deepEqual([...linear(x, W, b, 2)], [...row([1, 2]), ...row([3, 4])])
  }
})

test("softmax gives 0 to −∞, and the rest sums to 1", () => {
  assert.deepEqual([...softmax([-Infinity, 1000, 1000])], [0, .5, .5])
})

test("LayerNorm gives mean 0 and variance 1, then applies weight and bias", () => {
  const normed = layerNorm(Float32Array.of(1, 3), Float32Array.of(1, 2), Float32Array.of(0, 5), 0)
  assert.deepEqual([...normed], [-1, 7])
})

test("with cached keys, the last query is that of the last token", () => {
  const q = Float32Array.of(0, 0), k = Float32Array.of(1, 2, 3), v = Float32Array.of(10, 20, 30)
  const { weights, masked_scores, head_output } = attend(q, k, v, 1, 1, true)
  assert.deepEqual([...masked_scores], [0, 0, -Infinity, 0, 0, 0])
  assert.deepEqual([...weights], [...[.5, .5, 0], ...Array(3).fill(Math.fround(1 / 3))])
  assert.deepEqual([...head_output].map(Math.round), [15, 20])
  assert.ok(attend(q, k, v, 1, 1, false).weights.every((weight) => weight > .3))
})

test("among equal probabilities the first token is the likeliest", () => {
  assert.deepEqual(likeliest(Float32Array.of(.25, .5, .25), 2).map(({ id }) => id), [1, 0])
  assert.deepEqual([...columns(Float32Array.of(1, 2, 3, 4, 5, 6), 3, 1, 2)], [2, 3, 5, 6])
})
