// Prints the figure that chart.js draws of a picture, whose JSON is the standard input.
import { readFileSync } from "node:fs"

import { figureOf } from "../../gpt2viz/app/scripts/figure.js"

console.log(JSON.stringify({ ...figureOf(JSON.parse(readFileSync(0, "utf8"))), grid: undefined,
  dashes: undefined }))
