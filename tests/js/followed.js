// What the arrows' script makes of points in a file: node followed.js FILE, as JSON.
import { readFileSync } from "node:fs"

import { followed } from "../../gpt2viz/app/scripts/arrows.js"

console.log(JSON.stringify(JSON.parse(readFileSync(process.argv[2], "utf8")).map(followed)))
