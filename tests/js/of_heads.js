// Draws the messages of a head and of every head's weights as the browser does, for some choices:
// node of_heads.js FILE prints JSON.
import { readFileSync } from "node:fs"

import {
  chosen, describeHead, forLines, numbers as sent, ofHeads, weightsOf,
} from "../../gpt2viz/app/scripts/head_picture.js"
import { asLines } from "../../gpt2viz/app/scripts/lines.js"
import { readMatrices } from "../../gpt2viz/app/scripts/matrices.js"

const { head, numbers, choices } = JSON.parse(readFileSync(process.argv[2], "utf8"))
const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"))

if (numbers) sent.default({ data: bytes(numbers) })
console.log(JSON.stringify(choices.map((choice) => {
  const p = readMatrices(bytes(head))
  const state = chosen(p, (name, value) => name in choice ? choice[name] : value)
  const weights = weightsOf(p.head.numbers), drawn = ofHeads(p, weights, state)
  const { matrices, ...lines } = forLines(drawn, state)
  const wide = drawn.panels[0].columns.length
  const count = drawn.panels.reduce((sum, { rows }) => sum + rows.length * wide, 0)
  return {
    panels: drawn.panels, decimals: drawn.decimals, legend: drawn.legend, asks: drawn.asks,
    bits: [...new Uint32Array(drawn.values.slice(0, count).buffer)],
    masked: Array.from({ length: count }, (_, n) => Number(drawn.masked(n))),
    description: weights && p.head.names.length ? describeHead(p.head, weights, state) : null,
    lines: { ...lines, ...asLines(matrices, wide, lines) },
  }
})))
