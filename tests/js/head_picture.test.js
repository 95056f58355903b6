import assert from "node:assert/strict"
import { test } from "node:test"

import {
  chosen, does, forLines, numbers, offers, ofHeads, weightsOf,
} from "../../gpt2viz/app/scripts/head_picture.js"
import { message } from "../../gpt2viz/app/scripts/message.js"

const HEAD = { layer: 1, head: 2, more: [3, 2, 0, 1, 4], n_head: 8, picture: "matrix", query: null,
  sentences: { attends: "{query} attends to {keys}.",
    itself: "a single {noun} can attend only to itself.",
    first: "every {noun} attends only to itself and to the first." },
  names: ["a", "b", "c"], between: "", what: "Attention weights",
  lines: { shows: "tiny", colors: ["#1", "#2", "#3", "#4"] } }
const NAMES = ["0 a", "1 b", "2 1"]
const GRID = { rows: NAMES, columns: NAMES, rowEnds: NAMES, columnEnds: NAMES, wide: "key" }
const ZOOMS = { part: null, end: 3, row: null, column: null, scale: "unit", least: 0, grows: null,
  masked: ["masked"], legend: true,
  axes: [{ rows: [[0, 1, 2], ["a", "b", "1"]], columns: [[0, 1, 2], ["a", "b", "1"]] }] }
const P = { head: HEAD, zooms: ZOOMS, grids: [GRID], asks: [true],
  special: [{ color: "#0" }, { name: "NaN", color: "#0" }, { name: "infinite", color: "#0" }],
  panels: [{ ...GRID, grid: 0, start: 0, title: "", part: [], quantity: "attention weight" }],
  values: new Float32Array(9), masked: () => 0 }
// Row by row of head 1.2: 1 0 0, .25 .75 0, .5 .25 .25; the others have 0 everywhere.
const WEIGHTS = new Float32Array(2 * 8 * 9)
WEIGHTS.set([1, 0, 0, .25, .75, 0, .5, .25, .25], 10 * 9)

const here = (changes) => chosen(P, (name, drawn) => name in changes ? changes[name] : drawn)

test("what holds is what was chosen here, else what the server has drawn", () => {
  assert.deepEqual(here({}), { layer: 1, head: 2, more: [3, 2, 0, 1, 4], beside: [3, 0, 1],
    picture: "matrix", part: null, query: null })
  const other = { layer: "0", head: "3", more: null, picture: "lines", zoom: "0,2,0,3", query: "1" }
  assert.deepEqual(here(other), { layer: 0, head: 3, more: [], beside: [], picture: "lines",
    part: [0, 2, 0, 3], query: 1 })
})

test("a part that the text hasn't is the whole", () => {
  assert.equal(here({ zoom: "0,9,0,3" }).part, null)
  assert.equal(chosen({ head: HEAD }, (_, drawn) => drawn).part, null)
})

test("another head is drawn from its weights, with its row framed and its part cut out", () => {
  const state = here({ query: "2", zoom: "1,3,0,2" }), p = ofHeads(P, WEIGHTS, state)
  assert.deepEqual([...p.values], [.25, .75, .5, .25])
  assert.equal(p.panels[0].title, "Layer 1 · Head 2")
  assert.deepEqual(p.panels[0].frame, [1, 1, 0, 1])
  assert.deepEqual(p.panels[0].part, ["queries 1 to 2, keys 0 to 1", "1–2 × 0–1"])
})

test("lines have the names and the places of what is drawn, and of each head its numbers", () => {
  const state = here({ picture: "lines", more: "3", query: "1" })
  const lines = forLines(ofHeads(P, WEIGHTS, state), state)
  assert.deepEqual(lines.queries, [[0, "a"], [1, "b"], [2, "1"]])
  assert.deepEqual(lines.matrices.map(({ name }) => name), ["Head 2", "Head 3"])
  assert.deepEqual([...lines.matrices[0].values], [...WEIGHTS.subarray(90, 99)])
  assert.deepEqual([lines.chosen, lines.colors], [1, ["#1", "#2"]])
  assert.equal(lines.alt, "Attention weights of layer 1, head 2, 3")
  assert.equal(lines.shows, `tiny, ${lines.alt}`)
})

test("what a head does is written of the chosen token, or of that of its strongest link", () => {
  const said = (changes) => does(HEAD, WEIGHTS, here(changes))
  assert.equal(said({ query: "1" }), "b attends to b (0.75), a (0.25).")
  assert.equal(said({}), "c attends to a (0.50), b (0.25), c (0.25).")
  const even = new Float32Array(WEIGHTS.length).fill(1 / 64)
  assert.equal(does(HEAD, even, here({ query: "2" })), "c attends to a (0.02).")
  assert.equal(said({ head: "3" }), "every token attends only to itself and to the first.")
  assert.equal(does({ ...HEAD, names: ["a"] }, WEIGHTS, here({ head: "0" })),
    "a single token can attend only to itself.")
})

test("without the weights of every head only the picture changes here, where one is drawn", () => {
  const offered = (changes, weights = WEIGHTS, head = HEAD) =>
    offers({ head }, changes, here({}), weights)
  assert.ok(offered({ layer: "0", head: "1" }) && offered({ more: "1" }) && offered({ query: "1" }))
  assert.ok(!offered({ layer: "0", head: "1" }, null) && !offered({ query: "1" }, null))
  assert.ok(!offered({ query: "1" }, WEIGHTS, { ...HEAD, names: [] }))
  assert.ok(offered({ picture: "lines" }) && !offered({ picture: "lines" }, null))
  assert.ok(offers({ head: HEAD }, { picture: "lines" }, { ...here({}), beside: [] }, null))
})

test("the weights that came last are there by their name, bit by bit", () => {
  assert.ok(!weightsOf(""))
  const values = Float32Array.of(.1, NaN, -Infinity, 1)
  assert.equal(numbers.default({ data: message({ name: "one" }, values) }), undefined)
  assert.deepEqual(weightsOf("one"), values)
  assert.equal(weightsOf("other"), null)
  numbers.default({ data: message({ name: "other" }, Float32Array.of(2)) })
  assert.equal(weightsOf("one"), null)
  assert.deepEqual([...weightsOf("other")], [2])
})
