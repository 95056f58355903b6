// A page's model and tokenizer, read from the file by the page's own scripts.
import { readFileSync } from "node:fs"

import { inflate } from "../../gpt2viz/app/scripts/matrices.js"
import { bytesOf, readWeights } from "../../gpt2viz/notebook/packed.js"
import { tokenizer } from "../../gpt2viz/notebook/tokenizer.js"

export async function modelOf(page) {
  const html = readFileSync(page, "utf16le")
  const part = (name) => html.match(new RegExp(`data-part="${name}">([^<]*)<`))[1]
  const about = JSON.parse(part("about").replaceAll("\\u003c", "<"))
  const bytes = await inflate(bytesOf(part("merges"), about.lengths.merges))
  const merges = Array.from({ length: bytes.length / 12 }, (_, n) =>
    [...new Int32Array(bytes.buffer, 12 * n, 3)])
  const model = { config: about.config, weights: await readWeights(about, part) }
  return { about, model, ...tokenizer({ letters: about.letters, merges }) }
}
