// What the browser makes of a message for another part of the text: node cut_again.js FILE PARTS,
// with parts as the address has them, "" for the whole; as JSON, a message a part.
import { readFileSync } from "node:fs"

import { crop, parsePart, readMatrices } from "../../gpt2viz/app/scripts/matrices.js"

const p = readMatrices(new Uint8Array(readFileSync(process.argv[2])))
const bits = (values) => [...new Uint32Array(values.buffer, values.byteOffset, values.length)]
// By its bits and masks, without what other parts are cut from, and what only the server says.
const written = ({ values, masked, ...drawn }) => {
  for (const name of ["zooms", "wholes", "whole", "alt", "head", "either"]) delete drawn[name]
  return { ...drawn, bits: bits(values), hidden: [...values].map((_, n) => masked(n)) }
}
const parts = JSON.parse(process.argv[3]).map((part) =>
  part === null ? p : crop(p, parsePart(part, p.zooms.end)))
console.log(JSON.stringify(parts.map(written)))
