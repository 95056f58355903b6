// The model of a page, run by its own scripts: node live_runs.js PAGE TEXTS OUT writes a JSON file
// for each text and mask, with the ids, every number inside its heads, and what comes next.
import { readFileSync, writeFileSync } from "node:fs"

import { inflate } from "../../gpt2viz/app/scripts/message.js"
import { continuation, forward, likeliest, predict } from "../../gpt2viz/notebook/network.js"
import { bytesOf, readWeights } from "../../gpt2viz/notebook/packed.js"
import { tokenizer } from "../../gpt2viz/notebook/tokenizer.js"

const [page, texts, out] = process.argv.slice(2), html = readFileSync(page, "utf16le")
const part = (name) => html.match(new RegExp(`data-part="${name}">([^<]*)<`))[1]
const about = JSON.parse(part("about").replaceAll("\\u003c", "<")), { config } = about
const bytes = await inflate(bytesOf(part("merges"), about.lengths.merges))
const merges = Array.from({ length: bytes.length / 12 }, (_, n) =>
  [...new Int32Array(bytes.buffer, 12 * n, 3)])
const model = { config, weights: await readWeights(about, part) }
const { encode, decode } = tokenizer({ letters: about.letters, merges })

// So many of the texts are written on, which takes as long as ten of them.
const CONTINUED = 4

JSON.parse(readFileSync(texts, "utf8")).forEach((text, n) => {
  const ids = encode(text)
  for (const causal of [true, false]) {
    const run = forward(model, ids, { causal }), probabilities = predict(model, run), after = []
    if (n < CONTINUED)
      for (const id of continuation(model, ids, causal)) if (after.push(id) === 10) break
    const numbers = run.layers.flatMap(({ heads }) =>
      heads.flatMap((head) => about.stages.map((stage) => head[stage])))
    writeFileSync(`${out}/${n}-${causal}.json`, JSON.stringify({ ids, after, text: decode(ids),
      likeliest: likeliest(probabilities, 5), probabilities: [...probabilities] }))
    writeFileSync(`${out}/${n}-${causal}.bin`, Buffer.concat(numbers.map(({ buffer }) =>
      Buffer.from(buffer))))
  }
})
