// The model as the page keeps it: read into the weights that network.js runs, as page.py wrote it.

import { inflate } from "../app/scripts/message.js"

// The first of the characters that stand for 15 bits each.
const FIRST = 0x3400

/** The bytes that a text of such characters stands for, so many of them. */
export function bytesOf(text, length) {
  const bytes = new Uint8Array(length)
  let held = 0, count = 0, at = 0
  for (let n = 0; at < length; n++) {
    held |= text.charCodeAt(n) - FIRST << count
    for (count += 15; count >= 8 && at < length; count -= 8) {
      bytes[at++] = held & 255
      held >>>= 8
    }
  }
  return bytes
}

/** The weights by their names, in float32. A matrix is kept as whole multiples of a step for each
 * row: `high` has their upper bits, deflated, and `low` the two lowest, four numbers a byte. Steps
 * and vectors are in `plain`.
 *
 * @param {{sizes: [string, number, number][], lengths: Record<string, number>}} about
 * @param {(part: string) => string} text */
export async function readWeights({ sizes, lengths }, text) {
  const part = (name) => bytesOf(text(name), lengths[name])
  const high = new Int8Array((await inflate(part("high"))).buffer)
  const low = part("low"), plain = new Float32Array(part("plain").buffer), weights = {}
  let at = 0, next = 0
  for (const [name, rows, columns] of sizes) {
    const steps = plain.subarray(next, next += rows)
    if (!columns) { // a vector
      weights[name] = steps
      continue
    }
    const numbers = weights[name] = new Float32Array(rows * columns)
    for (let n = 0; n < numbers.length; n++, at++) {
      const lowest = low[at >> 2] >> 2 * (at & 3) & 3
      numbers[n] = steps[Math.floor(n / columns)] * (4 * high[at] + lowest)
    }
  }
  return weights
}
