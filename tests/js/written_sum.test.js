import assert from "node:assert/strict"
import { test } from "node:test"

import draw from "../../gpt2viz/app/scripts/written_sum.js"
import { Part } from "./part.js"

function drawn(parts) {
  globalThis.document = { createElement: (tag) => new Part(tag) }
  const sum = new Part("div")
  const parentElement = { querySelector: (name) => name === ".sum" ? sum : null }
  draw({ data: { parts: [{ kind: "note", text: "of before" }] }, parentElement })
  draw({ data: { parts }, parentElement })
  return sum
}

test("a strip has its coloured name, its token, and a coloured cell for each number", () => {
  const cells = [["#112233", "dimension 0: 1.0000"], ["#445566", "dimension 1: −2.0000"]]
  const sum = drawn([{ kind: "strip", name: "q", token: "<b>cat", ink: "#2457c5", cells }])
  assert.equal(sum.text, "q <b>cat")
  assert.equal(sum.all("b")[0].style.color, "#2457c5")
  assert.deepEqual(sum.all("i").map(({ style, title }) => [style.background, title]), cells)
})

test("a result has the model's number beside it", () => {
  const sum = drawn([{ kind: "result", name: "Raw score", value: "1.2500", model: "1.2501" }])
  assert.equal(sum.text, "Raw score= 1.2500the model: 1.2501")
})

test("a table highlights the chosen row, and bars have the length of their share", () => {
  const rows = [[["0 a", "0.2500"], 0.25], [["1 b", "0.7500"], 0.75]]
  const columns = ["key", "weight"]
  const sum = drawn([{ kind: "table", columns, rows, chosen: 1, bar: "#123456" }])
  assert.deepEqual(sum.all("tr").map(({ text }) => text), ["keyweight", "0 a0.2500", "1 b0.7500"])
  assert.deepEqual(sum.all("tr").map(({ className }) => className), ["", "", "chosen"])
  const bars = sum.all("span").map(({ style: { width, background } }) => ({ width, background }))
  assert.deepEqual(bars, [{ width: "25%", background: "#123456" },
    { width: "75%", background: "#123456" }])
})

test("steps keep their order and replace earlier ones", () => {
  const sum = drawn([{ kind: "arrow", text: "÷ √32" }, { kind: "note", text: "checked" }])
  assert.deepEqual(sum.children.map(({ className, text }) => [className, text]),
    [["arrow", "÷ √32"], ["note", "checked"]])
})
