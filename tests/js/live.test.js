import assert from "node:assert/strict"
import { test } from "node:test"

import { strongestLinks, hiddenIn, writtenSum } from "../../gpt2viz/notebook/live.js"
import { attend } from "../../gpt2viz/notebook/network.js"

test("the mask hides the keys after a query", () => {
  const cells = [0, 1, 2, 3]
  assert.deepEqual(cells.map(hiddenIn(2, true)), [false, true, false, false])
  assert.deepEqual(cells.map(hiddenIn(2, false)), [false, false, false, false])
})

test("links exclude the token itself and the first token, the strongest first", () => {
  const weights = (...rows) => ({ weights: Float32Array.from(rows.flat()) })
  const heads = [weights([1, 0, 0], [.5, .5, 0], [.2, .3, .5]),
    weights([1, 0, 0], [1, 0, 0], [.1, .75, .15])]
  assert.deepEqual(strongestLinks([{ heads }], 3), [[], [], [[1, 1, "0.75"], [0, 1, "0.30"]]])
})

test("a cell's calculation from query and key agrees with the model's numbers", () => {
  const made = attend(Float32Array.of(1, 2, 3, 4), Float32Array.of(2, 0, 1, 1),
    new Float32Array(4), 2, 2, true)
  const scale = [[0, "#000000"], [1, "#ffffff"]]
  const view = { run: { layers: [{ heads: [made] }] }, names: ["0 a", "1 b"], causal: true,
    query: 1, key: 1, hs: 2, scheme: "light", about: { config: { divisors: [2] },
      sum: { light: { scale, query: "blue", key: "red", ink: "black" } } } }
  const results = () => writtenSum(view, [0, 0]).filter(({ kind }) => kind === "result")
    .map(({ value, model }) => [value, model])
  const weight = (1 / (1 + Math.exp(-.5))).toFixed(4)
  assert.deepEqual(results(), [["7.0000", "7.0000"], ["3.5000", "3.5000"], [weight, weight]])
  Object.assign(view, { query: 0 })
  assert.deepEqual(results().at(-1), ["0.0000", "0.0000"])
})
