import assert from "node:assert/strict"
import { test } from "node:test"
import { deflateSync } from "node:zlib"

import { bytesOf, readWeights } from "../../gpt2viz/notebook/packed.js"

// Bytes as characters of 15 bits, written in another way than the page's: bit by bit.
function written(bytes) {
  const bits = [...bytes].flatMap((byte) => Array.from({ length: 8 }, (_, n) => byte >> n & 1))
  const text = []
  for (let n = 0; n < bits.length; n += 15)
    text.push(0x3400 + bits.slice(n, n + 15).reduce((sum, bit, at) => sum + (bit << at), 0))
  return String.fromCharCode(...text)
}

test("bytes of any number come back", () => {
  for (const length of [0, 1, 2, 14, 15, 16, 31]) {
    const bytes = Uint8Array.from({ length }, (_, n) => 255 - 7 * n)
    assert.deepEqual(bytesOf(written(bytes), length), bytes)
  }
})

test("a number is its step times four of the upper bits and the two lowest", async () => {
  const codes = [5, -1, -508, 508, 0, 3], plain = Float32Array.of(.5, 2, 7, 8, 9)
  const low = new Uint8Array(2)
  codes.forEach((code, n) => { low[n >> 2] |= (code & 3) << 2 * (n & 3) })
  const parts = { low, plain: new Uint8Array(plain.buffer),
    high: deflateSync(Int8Array.from(codes, (code) => code >> 2)) }
  const lengths = Object.fromEntries(Object.entries(parts).map(([name, { length }]) =>
    [name, length]))
  /** @type {[string, number, number][]} */
  const sizes = [["W", 2, 3], ["b", 3, 0]]
  const weights = await readWeights({ sizes, lengths }, (name) => written(parts[name]))
  assert.deepEqual([...weights.W], [2.5, -.5, -254, 1016, 0, 6])
  assert.deepEqual([...weights.b], [7, 8, 9])
})
