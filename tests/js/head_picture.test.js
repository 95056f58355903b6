import assert from "node:assert/strict"
import { test } from "node:test"

import {
  awaitWeights, chosen, numbers, offers, weightsOf,
} from "../../gpt2viz/app/scripts/head_picture.js"
import { message } from "./message.js"

const HEAD = { layer: 1, head: 2, more: [3, 2, 0, 1, 4], n_head: 8, query: null,
  names: ["a", "b", "c"] }
const either = { picture: "matrix" }, P = { head: HEAD, either, zooms: { part: null, end: 3 } }
const WEIGHTS = new Float32Array(2 * 8 * 9)

const stateOf = (changes) => chosen(P, (name, drawn) => name in changes ? changes[name] : drawn)

test("the state is what was chosen here, else what the server drew", () => {
  assert.deepEqual(stateOf({}), { layer: 1, head: 2, more: [3, 2, 0, 1, 4], beside: [3, 0, 1],
    picture: "matrix", part: null, query: null })
  const other = { layer: "0", head: "3", more: null, picture: "lines", zoom: "0,2,0,3", query: "1" }
  assert.deepEqual(stateOf(other), { layer: 0, head: 3, more: [], beside: [], picture: "lines",
    part: [0, 2, 0, 3], query: 1 })
})

test("a part beyond the text is read as the whole", () => {
  assert.equal(stateOf({ zoom: "0,9,0,3" }).part, null)
  assert.equal(chosen({ head: HEAD, either }, (_, drawn) => drawn).part, null)
})

test("without all weights only the kind of picture changes here, and only for one head", () => {
  const offered = (changes, weights = WEIGHTS, head = HEAD) =>
    offers({ head }, changes, stateOf({}), weights)
  assert.ok(offered({ layer: "0", head: "1" }) && offered({ more: "1" }) && offered({ query: "1" }))
  assert.ok(!offered({ layer: "0", head: "1" }, null) && !offered({ query: "1" }, null))
  assert.ok(!offered({ query: "1" }, WEIGHTS, { ...HEAD, names: [] }))
  assert.ok(offered({ picture: "lines" }) && !offered({ picture: "lines" }, null))
  assert.ok(offers({ head: HEAD }, { picture: "lines" }, { ...stateOf({}), beside: [] }, null))
})

test("the latest weights are kept exactly, by name", () => {
  assert.ok(!weightsOf(""))
  const values = Float32Array.of(.1, NaN, -Infinity, 1)
  assert.equal(numbers.default({ data: message({ name: "one" }, values) }), undefined)
  assert.deepEqual(weightsOf("one"), values)
  assert.equal(weightsOf("other"), null)
  const drawn = []
  awaitWeights(() => drawn.push(weightsOf("other")?.length))
  numbers.default({ data: message({ name: "other" }, Float32Array.of(2)) })
  assert.deepEqual(drawn, [1], "what came before its weights isn't drawn with them")
  assert.equal(weightsOf("one"), null)
  assert.deepEqual([...weightsOf("other")], [2])
})
