import assert from "node:assert/strict"
import { test } from "node:test"

import {
  arc, bare, fontSize, nextWords, signed, strongest,
} from "../../gpt2viz/app/scripts/words.js"

// Two layers of two heads over three tokens.
const P = { n_head: 2, n_tokens: 3, arcs: [[[0, 1]], [], [[1, .75]]] }
const WEIGHTS = new Float32Array(36)
WEIGHTS.set([.04, .36, .6], ((1 * 2 + 1) * 3 + 2) * 3)

test("arcs go to the keys with most weight, the largest first, none below the minimum", () => {
  assert.deepEqual(strongest(P, WEIGHTS, { layer: 1, head: 1, query: 2 }),
    [[2, Math.fround(.6)], [1, Math.fround(.36)]])
  assert.deepEqual(strongest(P, WEIGHTS, { layer: 0, head: 1, query: 2 }), [])
})

test("without the weights of every head, the arcs are those the server sent", () => {
  assert.deepEqual(strongest(P, null, { layer: 1, head: 1, query: 2 }), [[1, .75]])
  assert.deepEqual(strongest(P, null, { layer: 1, head: 1, query: 5 }), [])
})

test("an arc joins both words within the available height", () => {
  const { path, top } = arc([10, 80], [500, 80], 76)
  assert.match(path, /^M10 80C.* 500 80$/)
  assert.ok(top[1] >= 18 && top[0] === 255)
  assert.match(arc([10, 80], [90, 140], 76).path, /^M10 80Q.* 90 140$/)
  const over = [[10, 80], [10, 140]].map((from) => arc(from, [90, 140], 76, 80)) // words above
  assert.deepEqual(over.map(({ faint, top: label }) => label ?? faint), [.4, .4])
  const ring = arc([40, 80], [40, 80], 76).path, [, left, right] = ring.match(/C(\S+) \S+ (\S+)/)
  assert.match(ring, /^M40 80C.* 40 80$/)
  assert.ok((right - left) * Math.sqrt(3) / 6 > 2 * 9) // it is open between its widest strokes
})

test("the font is as large as one line allows, between 16 and 36 pixels", () => {
  assert.equal(fontSize(["A", "crane"], 1280), 36)
  assert.equal(fontSize(Array(60).fill("word"), 1280), 16)
  assert.equal(Math.round(fontSize(Array(16).fill("word"), 1280)), 25)
})

test("a word is shown without the dot of its space, a lone space with it", () => {
  assert.deepEqual(["·cat", "cat", "·", "· (2)", "\u2068·שלום\u2069", "a·"].map(bare),
    ["cat", "cat", "·", "· (2)", "\u2068שלום\u2069", "a·"])
  const next = ["·A", "A", "·a", "was"].map((label) => ({ label }))
  assert.deepEqual(nextWords({ next }), ["·A", "A", "a", "was"], "two that would read the same")
})

test("a part of a logit has a sign, but none if it rounds to 0", () => {
  assert.deepEqual([2.7, -1.04, .04, -.04].map(signed), ["+2.7", "−1.0", "0.0", "0.0"])
})
