// What the browser makes of the messages of a head and of every head's weights, for some choices:
// node of_heads.js FILE, as JSON.
import { readFileSync } from "node:fs"

import {
  chosen, does, forLines, numbers as sent, ofHeads, weightsOf,
} from "../../gpt2viz/app/scripts/head_picture.js"
import { asLines } from "../../gpt2viz/app/scripts/lines.js"
import { readMatrices } from "../../gpt2viz/app/scripts/matrices.js"

const { head, numbers, choices } = JSON.parse(readFileSync(process.argv[2], "utf8"))
const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"))

if (numbers) sent.default({ data: bytes(numbers) })
console.log(JSON.stringify(choices.map((choice) => {
  const p = readMatrices(bytes(head))
  const state = chosen(p, (name, drawn) => name in choice ? choice[name] : drawn)
  const weights = weightsOf(p.head.numbers), found = ofHeads(p, weights, state)
  const { matrices, ...lines } = forLines(found, state)
  const wide = found.panels[0].columns.length
  const count = found.panels.reduce((sum, { rows }) => sum + rows.length * wide, 0)
  return {
    panels: found.panels, decimals: found.decimals, legend: found.legend, asks: found.asks,
    bits: [...new Uint32Array(found.values.slice(0, count).buffer)],
    masked: Array.from({ length: count }, (_, n) => Number(found.masked(n))),
    does: weights && p.head.names.length ? does(p.head, weights, state) : null,
    lines: { ...lines, ...asLines(matrices, wide, lines) },
  }
})))
