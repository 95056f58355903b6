import assert from "node:assert/strict"
import { beforeEach, test } from "node:test"

import save from "../../gpt2viz/app/scripts/browser_picture.js"

// A browser that draws nothing, and records the files that it saves and the SVG in them.
let saved, blobs

function element(tag) {
  const attributes = {}, children = []
  return { tag, attributes, children, append: (...some) => children.push(...some), remove() {},
    setAttribute: (name, value) => { attributes[name] = value },
    getAttribute: (name) => attributes[name],
    click() { saved.push(this.download) } }
}

beforeEach(() => {
  saved = []
  blobs = []
  globalThis.window = {}
  globalThis.document = { createElement: element, createElementNS: (_, tag) => element(tag),
    importNode: (node) => node }
  globalThis.DOMParser = class {
    parseFromString(svg) {
      const documentElement = element("svg")
      documentElement.setAttribute("height", String(svg.length))
      return { documentElement }
    }
  }
  globalThis.XMLSerializer = class {
    serializeToString(node) {
      blobs.push(node)
      return node.tag
    }
  }
  globalThis.setTimeout = /** @type {any} */ (() => {})
})

const DATA = { id: "1", kind: "svg", filename: "weights", width: 720, caption: ["one", "two"],
  parts: [{ svg: "a".repeat(100) }, { svg: "b".repeat(50) }], ink: "#1", paper: "#3" }

test("parts are stacked, with the caption below", async () => {
  await save({ data: DATA, parentElement: element("div") })
  const [{ attributes, children: [, first, second, ...lines] }] = blobs
  assert.deepEqual([first, second].map((part) => part.attributes.y), ["0", "100"])
  assert.deepEqual(lines.map((line) => [line.textContent, line.attributes.y]),
    [["one", 165], ["two", 180]])
  assert.deepEqual([attributes.width, attributes.height], [720, "188"])
  assert.deepEqual(saved, ["weights.svg"])
})

test("each request is saved once, and an empty one never", async () => {
  for (const id of ["1", "1", "", "2", "1"])
    await save({ data: { ...DATA, id }, parentElement: element("div") })
  assert.equal(saved.length, 2)
})
