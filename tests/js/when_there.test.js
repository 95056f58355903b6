import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { test } from "node:test"
import { createContext, runInContext } from "node:vm"

const FILE = new URL("../../gpt2viz/pictures/plotly/when_there.js", import.meta.url)

test("a figure is drawn once, as soon as plotly.js is loaded", () => {
  const waiting = [], drawn = []
  const page = createContext({ window: {}, figure: () => drawn.push("drawn"),
    setTimeout: (then) => waiting.push(then) })
  runInContext(readFileSync(FILE, "utf8"), page)
  waiting.shift()()
  assert.deepEqual([drawn, waiting.length], [[], 1])
  page.window.Plotly = {}
  waiting.shift()()
  assert.deepEqual([drawn, waiting.length], [["drawn"], 0])
})
