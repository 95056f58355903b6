// Prints the arrows' results for the points in a file as JSON: node followed.js FILE.
import { readFileSync } from "node:fs"

import { followed } from "../../gpt2viz/app/scripts/arrows.js"

console.log(JSON.stringify(JSON.parse(readFileSync(process.argv[2], "utf8")).map(followed)))
