// What the browser makes of messages for other parts of the text: node cut_again.js PARTS FILE…,
// with parts as the address has them, "" for the whole; as JSON, of each file itself and its parts.
import { readFileSync } from "node:fs"

import { crop, parsePart, readMatrices } from "../../gpt2viz/app/scripts/matrices.js"

const [, , parts, ...files] = process.argv
const bits = (values) => [...new Uint32Array(values.buffer, values.byteOffset, values.length)]
// By its bits and masks, without what other parts are cut from, and what only the server says.
const written = ({ values, masked, ...drawn }) => {
  for (const name of ["zooms", "wholes", "whole", "alt", "head", "either"]) delete drawn[name]
  return { ...drawn, bits: bits(values), hidden: [...values].map((_, n) => masked(n)) }
}
const cuts = files.map((file) => {
  const p = readMatrices(new Uint8Array(readFileSync(file)))
  const made = JSON.parse(parts).map((part) => crop(p, parsePart(part, p.zooms.end)))
  return [p, ...made].map(written)
})
console.log(JSON.stringify(cuts))
