import assert from "node:assert/strict"
import { test } from "node:test"
import { deflateSync } from "node:zlib"

import { inflated } from "../../gpt2viz/app/scripts/matrices.js"
import { blockOf, numbers, side } from "../../gpt2viz/notebook/attention.js"

test("deflated bytes are inflated again", async () => {
  const bytes = Uint8Array.from({ length: 300 }, (_, n) => n % 251)
  assert.deepEqual(await inflated(`\n${deflateSync(bytes).toString("base64")}\n`), bytes)
})

test("numbers of a head are float32, or codes of two bytes, three of which are NaN and ±∞", () => {
  const stored = { rows: 1, columns: 4, low: -1, step: 0 }
  const floats = new Float32Array([1, 2, 3, 4, .1, -.5, NaN, -Infinity])
  assert.deepEqual([...numbers(new Uint8Array(floats.buffer), stored, 2, 1)], [...floats.slice(4)])
  const codes = [0, 0, 0, 0, 1000, 65533, 65534, 65535]
  const bytes = Uint8Array.from([...codes.map((n) => n & 255), ...codes.map((n) => n >> 8)])
  assert.deepEqual([...numbers(bytes, { ...stored, step: .002 }, 2, 1)],
    [1, -Infinity, NaN, Infinity])
})

test("a part of an axis maps to the stored cells with its tokens", () => {
  assert.deepEqual(side(6, 6, [2, 4]), { cells: [2, 3, 4, 5], tokens: [2, 3, 4, 5] })
  assert.deepEqual(side(7, 3, [3, 3]), { cells: [1, 2], tokens: [2, 4] })
  const long = side(1000, 1000, [0, 999])
  assert.deepEqual([long.cells.length, long.tokens.at(-1)], [257, 1000])
  assert.deepEqual([0, 1, 3, 4, 6, 7].map((n) => blockOf({ tokens: [1, 4, 7] }, n)),
    [-1, 0, 0, 1, 1, -1])
})
