import assert from "node:assert/strict"
import { beforeEach, mock, test } from "node:test"

import save from "../../gpt2viz/app/scripts/browser_picture.js"

// A page with a chart whose camera notes what it is given.
let charts, given
const camera = { name: "toImage", click: (chart) => given.push(chart) }
const chart = { _context: { locale: "en", toImageButtonOptions: {} },
  _fullLayout: { _modeBar: { buttons: [[{ name: "pan" }], [camera]] } } }

beforeEach(() => {
  charts = [chart]
  given = []
  globalThis.window = { addEventListener() {}, removeEventListener() {} }
  globalThis.document = { querySelectorAll: () => charts }
  mock.timers.reset()
})

const DATA = { id: "1", figure: '{"data": [7], "layout": {"width": 5}}', print: false,
  options: { format: "svg", filename: "weights" } }

test("a chart's camera is given the figure instead of its chart, and its options", () => {
  save({ data: DATA })
  assert.deepEqual(given.map(({ data, layout }) => [data, layout]), [[[7], { width: 5 }]])
  const { locale, toImageButtonOptions } = given[0]._context
  assert.deepEqual([locale, toImageButtonOptions], ["en", DATA.options])
})

test("each wish is granted once, and none where there is none", () => {
  for (const id of ["1", "1", "", "2", "1"]) save({ data: { ...DATA, id } })
  assert.equal(given.length, 2)
})

test("a chart that isn't there yet is waited for, unless the component goes", () => {
  mock.timers.enable({ apis: ["setTimeout"] })
  charts = []
  save({ data: DATA })
  const leave = save({ data: { ...DATA, id: "2" } })
  leave()
  charts = [{ _fullLayout: undefined }, chart]
  mock.timers.tick(100)
  assert.equal(given.length, 1)
})
