// Messages to canvases, as pictures/canvas.py writes them.
export function message(head, ...parts) {
  const json = Buffer.from(JSON.stringify(head)), length = Math.ceil(json.length / 4) * 4
  const [start, padded] = [Buffer.alloc(4), Buffer.alloc(length, " ")]
  start.writeUInt32LE(length)
  json.copy(padded)
  const bytes = parts.map((part) => Buffer.from(part.buffer, part.byteOffset, part.byteLength))
  return Uint8Array.from(Buffer.concat([start, padded, ...bytes]))
}

// Booleans as bits, the first one lowest.
export function bits(truths) {
  const bytes = new Uint8Array(Math.ceil(truths.length / 8))
  truths.forEach((truth, n) => { bytes[n >> 3] |= truth << (n & 7) })
  return bytes
}
