// Draws messages of matrices as lines as the browser does, by name, for a choice: node of_lines.js
// FILE prints JSON.
import { readFileSync } from "node:fs"

import { asLines } from "../../gpt2viz/app/scripts/lines.js"
import { pictures } from "../../gpt2viz/app/scripts/matrix_or_lines.js"
import { readMatrices } from "../../gpt2viz/app/scripts/matrices.js"

const { sent, choice } = JSON.parse(readFileSync(process.argv[2], "utf8"))
const held = (name, drawn) => name in choice ? choice[name] : drawn

console.log(JSON.stringify(Object.fromEntries(Object.entries(sent).map(([key, text]) => {
  const p = readMatrices(new Uint8Array(Buffer.from(text, "base64")))
  return [key, pictures(p, held).map(({ title, data: { matrices, ...data } }) =>
    ({ title, ...data, ...asLines(matrices, data.keys.length, data) }))]
}))))
