import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { test } from "node:test"

import { message } from "./message.js"
import draw, { scriptOf } from "../../gpt2viz/app/scripts/index.js"

// As much of a page as the script uses.
globalThis.document = { createElement: () => ({ dataset: {}, querySelector() { return this } }) }
class Sheet {
  async replace(text) {
    this.text = text
    return this
  }
}
globalThis.CSSStyleSheet = Sheet

function root() {
  const parts = []
  return { parts, append: (part) => parts.push(Object.assign(part, {
    replaceWith: (other) => parts.splice(0, 1, other) })),
  querySelector: () => parts[0] ?? null }
}

test("a message names its script, in the header if it is binary", () => {
  assert.equal(scriptOf({ script: "arrows" }), "arrows")
  assert.equal(scriptOf(message({ script: "tiles" }, new Float32Array(2))), "tiles")
})

test("no script that most pages need waits for an import of another", () => {
  const read = (name) =>
    readFileSync(new URL(`../../gpt2viz/app/scripts/${name}.js`, import.meta.url), "utf8")
  const importsOf = (name) => [...read(name).matchAll(/ from "\.\/(\w+)\.js"/g)].map(([, at]) => at)
  const early = read("index").match(/EARLY = \[([^\]]+)/)[1].match(/\w+/g)
  const needed = ["chart", ...early.flatMap(importsOf)], loaded = [...early, ...importsOf("index")]
  assert.deepEqual(needed.filter((name) => !loaded.includes(name)), [])
})

test("a part is kept between messages, unless another script draws there", async () => {
  const page = root(), data = { script: "head_picture.numbers" }
  const bytes = message({ ...data, name: "a" }, Float32Array.of(1))
  for (let n = 0; n < 2; n++) await draw({ data: bytes, parentElement: page })
  assert.deepEqual(page.parts.map(({ dataset }) => dataset.script), ["head_picture.numbers"])
  const [first] = page.parts
  await draw({ data: { script: "page.fragment" }, parentElement: page, setTriggerValue() {} })
  assert.notEqual(page.parts[0], first)
  assert.equal(page.adoptedStyleSheets, undefined)
})

test("the style is fetched once for all parts, and again after a failure", async () => {
  const fetched = [], parts = [root(), root()]
  const drawn = { script: "written_sum", parts: [] }
  const element = { querySelector: () => ({ replaceChildren() {} }) }
  globalThis.document = { createElement: () => ({ ...element, dataset: {} }) }
  globalThis.fetch = async () => { throw new Error("offline") }
  await assert.rejects(draw({ data: drawn, parentElement: parts[0] }), /offline/)
  globalThis.fetch = async (url) => {
    fetched.push(url.pathname.split("/").at(-1))
    return { text: async () => readFileSync(url, "utf8") }
  }
  for (const parentElement of parts) await draw({ data: drawn, parentElement })
  assert.deepEqual(fetched, ["style.css"])
  assert.match(parts[0].adoptedStyleSheets[0].text, /\.sum/)
  assert.equal(parts[0].adoptedStyleSheets[0], parts[1].adoptedStyleSheets[0])
})
