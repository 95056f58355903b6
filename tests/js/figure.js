// Prints the figure that chart.js draws of a picture, whose JSON is the standard input.
import { readFileSync } from "node:fs"

import { figureOf } from "../../gpt2viz/app/scripts/figure.js"

const { data, layout } = figureOf(JSON.parse(readFileSync(0, "utf8")))
console.log(JSON.stringify({ data, layout }))
