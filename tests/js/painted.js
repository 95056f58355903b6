// What the tiles make of a message in a file: node painted.js FILE, as JSON.
import { readFileSync } from "node:fs"

import { readMatrices } from "../../gpt2viz/app/scripts/matrices.js"
import { painted } from "../../gpt2viz/app/scripts/tiles.js"

const p = readMatrices(new Uint8Array(readFileSync(process.argv[2])))
const bits = new Uint32Array(p.values.buffer, p.values.byteOffset, p.values.length)
console.log(JSON.stringify({
  rows: p.panels[0].rows,
  bits: [...bits],
  masked: [...bits].map((_, n) => p.masked(n)),
  pixels: painted(p).map(({ bytes }) => [...bytes]),
}))
