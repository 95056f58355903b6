import assert from "node:assert/strict"
import { test } from "node:test"

import { drawnBy, handed } from "../../gpt2viz/app/components/handed.js"

test("a script is had by all who wait for it and by all who come later", async () => {
  const page = {}
  const early = handed("one", page).script
  handed("one", page).give("script")
  assert.equal(await early, "script")
  assert.equal(await handed("one", page).script, "script")
})

test("whoever waits for another script gets none of it", async () => {
  const page = {}
  handed("one", page).give("script")
  const none = new Promise((done) => { setTimeout(done, 5, "none") })
  assert.equal(await Promise.race([handed("other", page).script, none]), "none")
})

// A part of a page, as far as it is needed here.
function root() {
  const styles = []
  return { styles, append: (style) => styles.push(style),
    querySelector: () => styles.find(({ className }) => className === "handed") ?? null }
}

test("a component is drawn by what is handed on, in its style, once", async () => {
  globalThis.document = { createElement: () => ({}) }
  const page = {}, parentElement = root()
  handed("one", page).give({ style: "p {}", draw: ({ data }) => data + 1 })
  assert.equal(await drawnBy("one", { data: 1, parentElement }, page), 2)
  assert.equal(await drawnBy("one", { data: 2, parentElement }, page), 3)
  assert.deepEqual(parentElement.styles.map(({ textContent }) => textContent), ["p {}"])
})

test("one without a style gets none", async () => {
  const page = {}, parentElement = root()
  handed("one", page).give({ style: "", draw: () => "drawn" })
  assert.equal(await drawnBy("one", { parentElement }, page), "drawn")
  assert.deepEqual(parentElement.styles, [])
})
