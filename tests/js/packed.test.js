import assert from "node:assert/strict"
import { test } from "node:test"
import { deflateSync } from "node:zlib"

import { bytesOf, readWeights } from "../../gpt2viz/notebook/packed.js"

// Bytes as 16-bit characters; ASCII, surrogates and every other one are in the next Unicode plane.
const written = (bytes) => Array.from({ length: Math.ceil(bytes.length / 2) }, (_, n) => {
  const code = bytes[2 * n] + 256 * (bytes[2 * n + 1] ?? 0)
  return String.fromCodePoint(code < 128 || code >> 11 === 27 || n % 2 ? code + 0x10000 : code)
}).join("")

test("any number of bytes is unpacked again", () => {
  for (const length of [0, 1, 2, 15, 16, 255]) {
    const bytes = Uint8Array.from({ length }, (_, n) => 255 - 7 * n)
    assert.deepEqual(bytesOf(written(bytes), length), bytes)
  }
})

test("a weight is its step times a code of 12 bits; letters have 8 more", async () => {
  const codes = [5, -1, -2048, 2047, 0, 19], plain = Float32Array.of(7, 8, 9)
  const low = new Uint8Array(3)
  codes.forEach((code, n) => { low[n >> 1] |= (code & 15) << 4 * (n & 1) })
  const parts = { low, rest: Uint8Array.of(128, 0, 64), plain: new Uint8Array(plain.buffer),
    high: deflateSync(Int8Array.from(codes, (code) => code >> 4)) }
  const lengths = Object.fromEntries(Object.entries(parts).map(([name, { length }]) =>
    [name, length]))
  /** @type {[string, number, number, number][]} */
  const sizes = [["wte.weight", 2, 3, .5], ["b", 3, 0, 0]]
  const about = { sizes, letters: [1], lengths }
  const weights = await readWeights(about, (name) => written(parts[name]))
  assert.deepEqual([...weights["wte.weight"]], [2.5, -.5, -1024, 1023.25, 0, 9.625])
  assert.deepEqual([...weights.b], [7, 8, 9])
})
