import assert from "node:assert/strict"
import { test } from "node:test"

import { cutOut } from "../../gpt2viz/export/saved_page.js"

const names = (letter, count) => Array.from({ length: count }, (_, n) => `${letter}${n}`)
const panel = (name, start, down, across, words = []) => ({ name, start, words, hover: words,
  rows: names("r", down), rowEnds: names("r", down), columns: names("c", across), columnEnds: [],
  frame: [0, 0, 0, 1] })

test("a dragged part is cut out of all matrices of the same size", () => {
  const p = { panels: [panel("one", 0, 2, 3), panel("other", 6, 2, 3, names("w", 6)),
    panel("small", 12, 1, 2)], values: [...Array(14).keys()], masked: (n) => n % 2,
  frames: [[0, 1, 0, 1]], rules: [[1], []] }
  const part = cutOut(p, { panel: "one", rows: [1, 1], columns: [0, 1] })
  assert.deepEqual([...part.values], [3, 4, 9, 10, 12, 13])
  assert.deepEqual([0, 1, 2, 3, 4, 5].map(part.masked), [1, 0, 1, 0, 0, 1])
  assert.deepEqual(part.panels.map(({ start, rows }) => start + rows[0]), ["0r1", "2r1", "4r0"])
  assert.deepEqual(part.panels.map(({ columns }) => columns), Array(3).fill(["c0", "c1"]))
  assert.deepEqual(part.panels[1].words, ["w3", "w4"])
  const across = cutOut(p, { panel: "one", rows: [1, 0], columns: [1, 2] }) // within one row
  assert.deepEqual([...across.values], [1, 2, 4, 5, 7, 8, 10, 11, 12, 13])
  assert.deepEqual([part.panels[0].frame, part.frames, part.rules], [null, [], [[], []]])
})
