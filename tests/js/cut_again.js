// Cuts parts out of messages as the browser does: node cut_again.js PARTS FILE… prints each file's
// matrices and those of its parts as JSON; parts are as in the address, "" for the whole.
import { readFileSync } from "node:fs"

import { crop, parsePart, readMatrices } from "../../gpt2viz/app/scripts/matrices.js"

const [, , parts, ...files] = process.argv
const bits = (values) => [...new Uint32Array(values.buffer, values.byteOffset, values.length)]
// The bits and masks, without the data for other parts and the server's own words.
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
