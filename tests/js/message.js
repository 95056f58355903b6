// Messages to canvases, as pictures/canvas.py writes them.
export function message(head, ...parts) {
  const json = JSON.stringify(head), text = json + " ".repeat(-Buffer.byteLength(json) & 3)
  const size = Uint32Array.of(Buffer.byteLength(text))
  const numbers = [size, ...parts].map(({ buffer }) => Buffer.from(buffer))
  return Uint8Array.from(Buffer.concat(numbers.toSpliced(1, 0, Buffer.from(text))))
}

// Booleans as bits, the first one lowest.
export function bits(truths) {
  const bytes = new Uint8Array(Math.ceil(truths.length / 8))
  truths.forEach((truth, n) => { bytes[n >> 3] |= truth << (n & 7) })
  return bytes
}
