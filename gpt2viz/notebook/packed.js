// Reads the model that live_page.py wrote into the page, as weights for network.js.

import { inflate } from "../app/scripts/matrices.js"

/** The given number of bytes that a text's characters encode: the lowest 16 bits of each. */
export function bytesOf(text, length) {
  const pairs = new Uint16Array(Math.ceil(length / 2))
  for (let n = 0, at = 0; n < pairs.length; n++) {
    const code = text.codePointAt(at)
    pairs[n] = code
    at += code > 0xffff ? 2 : 1
  }
  return new Uint8Array(pairs.buffer, 0, length)
}

/** The weights by name, in float32. A matrix is stored as whole multiples of a step: `high` has
 * their upper bits, deflated, and `low` the four lowest, two numbers per byte. `rest` has
 * eight more bits for the rows of the tokens that are `letters`, and `plain` has the vectors.
 *
 * @param {{sizes: [string, number, number, number][], letters: number[],
 *   lengths: Record<string, number>}} about
 * @param {(part: string) => string} text */
export async function readWeights({ sizes, letters, lengths }, text) {
  const part = (name) => bytesOf(text(name), lengths[name])
  const high = new Int8Array((await inflate(part("high"))).buffer)
  const rest = new Int8Array(part("rest").buffer), low = part("low")
  const plain = new Float32Array(part("plain").buffer), weights = {}
  let at = 0, next = 0
  for (const [name, rows, columns, step] of sizes) {
    if (!columns) { // a vector
      weights[name] = plain.subarray(next, next += rows)
      continue
    }
    const numbers = weights[name] = new Float32Array(rows * columns)
    for (let n = 0; n < numbers.length; n++, at++)
      numbers[n] = step * (16 * high[at] + (low[at >> 1] >> 4 * (at & 1) & 15))
    if (name === "wte.weight")
      letters.forEach((id, row) => {
        for (let c = 0; c < columns; c++)
          numbers[id * columns + c] += step / 256 * rest[row * columns + c]
      })
  }
  return weights
}
