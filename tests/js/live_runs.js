// The model of a page, run by its own scripts: node live_runs.js PAGE TEXTS OUT writes a JSON file
// for each text and mask, with the ids, every number inside its heads, and what comes next.
import { readFileSync, writeFileSync } from "node:fs"

import { continuation, forward, likeliest, predict } from "../../gpt2viz/notebook/network.js"
import { modelOf } from "./live_model.js"

const [page, texts, out] = process.argv.slice(2)
const { about, model, encode, decode } = await modelOf(page)

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
