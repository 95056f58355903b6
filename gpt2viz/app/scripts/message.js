// Messages to canvases on a page without a server, like those of pictures/canvas.py, and pooling of
// large matrices, like that of pictures/pooling.py.

/** The message of a canvas: the length of the JSON, the JSON padded to a multiple of four bytes,
 * and numbers. */
export function message(head, ...parts) {
  const json = new TextEncoder().encode(JSON.stringify(head))
  const length = Math.ceil(json.length / 4) * 4
  const bytes = new Uint8Array(4 + length + parts.reduce((sum, part) => sum + part.byteLength, 0))
  bytes.fill(0x20, 4, 4 + length)
  new DataView(bytes.buffer).setUint32(0, length, true)
  bytes.set(json, 4)
  let at = 4 + length
  for (const { buffer, byteOffset, byteLength } of parts) {
    bytes.set(new Uint8Array(buffer, byteOffset, byteLength), at)
    at += byteLength
  }
  return bytes
}

/** Booleans as bits, the first one lowest. */
export function bits(truths) {
  const bytes = new Uint8Array(Math.ceil(truths.length / 8))
  truths.forEach((truth, n) => { bytes[n >> 3] |= truth << (n & 7) })
  return bytes
}

/** The edges of at most `most` blocks of `count` cells: each start, and the last end. */
export function edges(count, most) {
  const blocks = Math.min(count, most)
  return Array.from({ length: blocks + 1 }, (_, n) => Math.floor(n * count / blocks))
}

/** Pool a matrix that is `wide` cells wide, in blocks between edges down and across: of each the
 * number farthest from 0 that isn't masked, and whether all are masked. */
export function pooled(values, masked, wide, down, across) {
  const shown = [], hidden = []
  for (let i = 1; i < down.length; i++)
    for (let j = 1; j < across.length; j++) {
      let best = values[down[i - 1] * wide + across[j - 1]], seen = false
      for (let row = down[i - 1]; row < down[i]; row++)
        for (let n = row * wide + across[j - 1]; n < row * wide + across[j]; n++) {
          if (masked(n)) continue
          if (!seen || farther(values[n], best)) best = values[n]
          seen = true
        }
      shown.push(best)
      hidden.push(!seen)
    }
  return { shown, hidden }
}

const farther = (a, b) => Number.isNaN(a) || Math.abs(a) > Math.abs(b) || a === -b && a > b

/** Inflate deflated bytes (RFC 1950). */
export async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))
  return new Uint8Array(await new Response(stream).arrayBuffer())
}
