import assert from "node:assert/strict"
import { test } from "node:test"

import { readMatrices as read } from "../../gpt2viz/app/scripts/matrices.js"
import { choose, takePart } from "../../gpt2viz/app/scripts/state.js"
import mount, {
  axisName, briefAlt, cellText, colorBar, dragged, fontFor, labelStep, messageFor, numberText,
  painted, plan, positionAt, step, under, wrapped,
} from "../../gpt2viz/app/scripts/tiles.js"
import { bits, message as encode } from "./message.js"

const GRID = { rows: ["a", "b"], columns: ["a", "b", "c"] }

// A message of two panels of 2 × 3, of which the cells `masked` are masked.
function message(values, masked, more = {}) {
  const panels = ["0", "1"].map((name) => ({ name, grid: 0, low: 0, high: 11, empty: "" }))
  return encode({ panels, grids: [GRID], ...more }, Float32Array.from(values),
    bits(values.map((_, n) => masked.includes(n))))
}

const SPECIAL = [
  { color: "#010203", other: "#040506", sign: "×", name: "masked" },
  { color: "#070809", other: "#070809", sign: "NaN", name: "NaN, not a number" },
  { color: "#0a0b0c", other: "#0a0b0c", sign: "∞", name: "infinite" },
]

test("a number is coloured by its panel's range, clamped at the ends", () => {
  const own = [[0, 4], [-2, 2]].map(([low, high]) => ({ name: "", grid: 0, low, high, empty: "" }))
  const p = { ...read(message([1, -9, 9, 0, 0, 0, 1, -9, 9, 0, 0, 0], [], { panels: own })),
    squares: 9, special: SPECIAL, scale: [[0, "#000000"], [1, "#ffffff"]] }
  const reds = painted(p).map(({ bytes }) => [0, 1, 2, 3].map((n) => bytes[4 * n]))
  assert.deepEqual(reds, [[64, 0, 255, 0], [191, 0, 255, 128]])
})

test("a panel without any number isn't painted", () => {
  const panels = ["nothing", ""].map((empty) => ({ name: "", grid: 0, low: 0, high: 1, empty }))
  const p = { ...read(message(Array(12).fill(NaN), [], { panels })), squares: 9, special: SPECIAL,
    scale: [[0, "#000000"], [1, "#ffffff"]] }
  assert.deepEqual(painted(p).map(({ bytes }) => bytes.length), [0, 24])
  assert.equal(cellText(p, { panel: 0, row: 0, column: 0 }), "nothing")
})

test("masked cells form a chessboard, with larger squares if there are many cells", () => {
  const n = 40, all = { rows: Array(n).fill("q"), columns: Array(n).fill("k") }
  const p = { panels: [{ ...all, start: 0, low: 0, high: 1 }], values: new Float32Array(n * n),
    masked: () => 1, squares: 20, special: SPECIAL, scale: [[0, "#000000"], [1, "#ffffff"]] }
  const [{ bytes }] = painted(p)
  const first = (row, column) => bytes[4 * (row * n + column)]
  assert.deepEqual([0, 1, 2, 3, 4].map((column) => first(0, column)), [1, 1, 4, 4, 1])
  assert.deepEqual([0, 1, 2, 3, 4].map((row) => first(row, 0)), [1, 1, 4, 4, 1])
  assert.equal(first(2, 2), 1)
})

const NAMES = Array.from({ length: 7 }, (_, n) => `${n} word`)

const letters = (text) => 6 * text.length

// Three panels of 5 × 7, two in a row, each letter 6 pixels wide; `each` has what differs.
function layout(more = {}, width = 800, each = [{}, {}, {}]) {
  const panel = { grid: 0, rows: NAMES.slice(0, 5), columns: NAMES, square: true, title: "Head 0",
    rowEnds: NAMES.slice(0, 5), columnEnds: NAMES, part: [], low: 0, high: 1 }
  const { across = 2, tallest = 300, bar = "", legend = [], ...all } = more
  const panels = each.map((own) => ({ ...panel, ...all, ...own }))
  const p = { across, tallest, bar, legend, panels }
  return { p, look: plan(p, width, letters) }
}

const VECTORS = [
  { grid: 0, square: false }, { grid: 1, rows: ["x"], rowEnds: ["x"], square: false },
  { grid: 2, columns: ["a", "b"], columnEnds: ["a", "b"], square: false },
]

for (const [which, more, width, each] of [
  ["in a wide window", {}, 1200],
  ["in a narrow window", { bar: "weight" }, 420],
  ["with long names", { rowEnds: ["an endless word of many letters"], columnEnds: ["a long one"] }],
  ["under a legend", { legend: [["masked", "#000000"]], part: ["queries 1 to 5", "1–5"] }],
  ["of several sizes", { across: 3 }, 900, VECTORS],
])
  test(`every cell is under the pointer, at its middle and its corners, ${which}`, () => {
    const { p, look } = layout(more, width, each)
    const shares = [[0.5, 0.5], [0.01, 0.01], [0.99, 0.01], [0.01, 0.99], [0.99, 0.99]]
    look.boxes.forEach((box, panel) => {
      const { rows, columns } = p.panels[panel]
      for (let row = 0; row < rows.length; row++)
        for (let column = 0; column < columns.length; column++)
          for (const [right, down] of shares) {
            const x = box.x + (column + right) * box.cw, y = box.y + (row + down) * box.ch
            const cell = under(positionAt(look, x, y))
            assert.deepEqual([cell.panel, cell.row + 0, cell.column + 0], [panel, row, column])
          }
    })
  })

test("no cell is found outside a panel", () => {
  const { look } = layout(), { boxes: [{ x, y, w, h }] } = look
  for (const [left, top] of [[x - 0.1, y + 5], [x + w, y + 5], [x + 5, y - 0.1], [x + 5, y + h]])
    assert.equal(under(positionAt(look, left, top)), null)
})

test("panels are side by side, without overlap and within the width", () => {
  for (const width of [320, 800, 1600]) {
    const { look: { boxes, height } } = layout({ bar: "weight" }, width)
    const [a, b, c] = boxes, { w, h } = a
    assert.equal(a.y, b.y)
    assert.ok(a.x + w <= b.x && b.x + w <= width)
    assert.ok(a.y + h <= c.y && c.y + h <= height)
    assert.equal(a.x, c.x)
    assert.deepEqual(boxes.map(({ first }) => first), [true, false, true])
    assert.deepEqual(boxes.map(({ last }) => last), [false, true, true])
  }
})

test("in a narrow window fewer panels are side by side, and none is lost", () => {
  const { look: { boxes, across } } = layout({ across: 3, title: "" }, 240)
  assert.equal(across, 2)
  assert.ok(boxes.every(({ w }) => w >= 64) && boxes[1].x + boxes[1].w <= 240)
  assert.deepEqual([boxes[2].x, boxes[2].first], [boxes[0].x, true])
  assert.ok(boxes[2].y >= boxes[0].y + boxes[0].h)
})

test("rows of panels wrap at a divisor of their length", () => {
  const eight = Array.from({ length: 8 }, () => ({}))
  const { look: { boxes, across } } = layout({ across: 4, title: "" }, 330, eight)
  assert.equal(across, 2)
  assert.deepEqual([0, 2, 4, 6].map((n) => boxes[n].x), Array(4).fill(boxes[0].x))
})

test("cells of token pairs are square; cells of vectors fill the available room", () => {
  const { look: { boxes: [a] } } = layout({ across: 1 }, 800, [{}])
  assert.equal(a.cw, a.ch)
  assert.ok(a.h <= 300 && a.w < 500)
  const { look: { boxes: [b] } } = layout({ across: 1, square: false, tallest: 100 }, 800, [{}])
  assert.equal(b.h, 100)
  assert.ok(b.w > 700)
})

test("panels with labels of their own have room for them", () => {
  const { look: { boxes: [a, b, c] } } = layout({ across: 3 }, 900, VECTORS)
  assert.deepEqual([a, b, c].map(({ first, last }) => first && last), [true, true, true])
  assert.ok(b.x - (a.x + a.w) >= b.names && c.x - (b.x + b.w) >= c.names)
  assert.ok(c.x + c.w <= 900)
})

test("labels shown by a neighbour take no room", () => {
  const at = (ends) => layout({ across: 1, ...ends }, 800, [{}]).look
  const { boxes: [named], height } = at({})
  const { boxes: [bare], height: less } = at({ rowEnds: [], columnEnds: [] })
  assert.ok(named.x > 20 && bare.x <= 1)
  assert.ok(less < bare.y + bare.h + 10 && less < height - 20)
  const { boxes: [rows] } = at({ columnEnds: [] })
  assert.deepEqual([rows.x, rows.labelHeight], [named.x, 0])
})

test("a title wraps into as many lines as it needs, above the matrix", () => {
  const { look: { boxes: [a] } } = layout({ across: 1, title: "one two\nthree" }, 800, [{}])
  assert.deepEqual(a.title, ["one two", "three"])
  assert.deepEqual(wrapped("values, and the crane afterwards", 100, letters),
    ["values, and the", "crane afterwards"])
  assert.deepEqual(wrapped("", 100, letters), [])
  const { look: { boxes: [b] } } = layout({ across: 1, title: "" }, 800, [{}])
  assert.ok(a.y - b.y === 26 && b.y >= 1)
})

test("a matrix without a colour bar has the ends of its scale above it", () => {
  const p = { ...read(message([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [])), across: 2, tallest: 90,
    legend: [], ranged: true }
  const bare = { title: "", part: [], rowEnds: [], columnEnds: [], low: -8.3061, high: 47 }
  p.panels.forEach((panel) => Object.assign(panel, bare))
  assert.deepEqual(plan(p, 400, letters).boxes.map(({ title }) => title),
    [["−8.31 to 47"], ["−8.31 to 47"]])
})

test("numbers are as large as their cells allow, or left out", () => {
  const texts = ["0.50", "0.25"] // 24 pixels wide at 12
  assert.equal(fontFor(texts, { cw: 40, ch: 40 }, letters), 12)
  assert.equal(fontFor(texts, { cw: 25, ch: 40 }, letters), 11)
  assert.equal(fontFor(texts, { cw: 40, ch: 14 }, letters), 11)
  assert.equal(fontFor(texts, { cw: 23, ch: 40 }, letters), 0)
  assert.equal(fontFor(texts, { cw: 40, ch: 13 }, letters), 0)
  assert.equal(fontFor([], { cw: 40, ch: 40 }, letters, true), 0)
})

test("words wider than their cells are cut, not shrunk", () => {
  assert.equal(fontFor(["a long one"], { cw: 24, ch: 27 }, letters, true), 11)
  assert.equal(fontFor(["one"], { cw: 40, ch: 27 }, letters, true), 12)
})

test("numbers in cells have signs, and NaN and masked cells symbols", () => {
  const p = { ...read(message([0.126, -0.5, 0, NaN, 0, 0, 0, 0, 0, 0, 0, 0], [4])), decimals: 2,
    special: SPECIAL }
  assert.deepEqual([0, 1, 3, 4].map((n) => numberText(p, n)), ["0.13", "−0.50", "NaN", "×"])
  const plus = { ...p, plus: true }
  assert.deepEqual([0, 1, 2, 3].map((n) => numberText(plus, n)), ["+0.13", "−0.50", "+0.00", "NaN"])
})

test("a number that rounds to 0 has no minus, except in differences", () => {
  const p = { ...read(message([-0.004, -0.006, -0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [4])), decimals: 2,
    special: SPECIAL }
  assert.deepEqual([0, 1, 2].map((n) => numberText(p, n)), ["0.00", "−0.01", "0.00"])
  assert.deepEqual([0, 1].map((n) => numberText({ ...p, plus: true }, n)), ["−0.00", "−0.01"])
})

test("a part's name is shortened if there is no room", () => {
  const part = ["queries 1000 to 1003, keys 20 to 23", "1000–1003 × 20–23"]
  const over = (width) => layout({ part, title: "" }, width).look.boxes.map(({ title }) => title[0])
  assert.deepEqual([1200, 420].map(over), part.map((name) => [name, name, name]))
})

test("an axis title is shortened to its first part if there is no room", () => {
  const measure = (text) => 6 * text.length
  assert.equal(axisName("your sentence · layer", 126, measure), "your sentence · layer")
  assert.equal(axisName("your sentence · layer", 125, measure), "your sentence")
  assert.equal(axisName("query", 10, measure), "query")
})

test("labels are as dense as there is room for", () => {
  assert.deepEqual([20, 7, 3, 0.5].map((cell) => labelStep(cell, 13)), [1, 2, 5, 50])
  assert.deepEqual([labelStep(0.01, 13), labelStep(1, 0)], [200, 1])
})

test("arrow keys move between cells and stop at the ends", () => {
  const { p } = layout()
  assert.deepEqual(step(p, null, "ArrowDown"), { panel: 0, row: 0, column: 0 })
  const at = { panel: 1, row: 2, column: 3 }
  for (const [key, change] of Object.entries({
    ArrowUp: { row: 1 }, ArrowDown: { row: 3 }, ArrowLeft: { column: 2 }, ArrowRight: { column: 4 },
    PageUp: { panel: 0 }, PageDown: { panel: 2 },
  })) assert.deepEqual(step(p, at, key), { ...at, ...change })
  const first = { panel: 0, row: 0, column: 0 }, last = { panel: 2, row: 4, column: 6 }
  for (const key of ["ArrowUp", "ArrowLeft", "PageUp"]) assert.deepEqual(step(p, first, key), first)
  for (const key of ["ArrowDown", "ArrowRight", "PageDown"])
    assert.deepEqual(step(p, last, key), last)
})

test("keys move into a smaller panel at its last row or column", () => {
  const { p } = layout({ across: 3 }, 900, VECTORS)
  const at = { panel: 0, row: 3, column: 4 }
  assert.deepEqual(step(p, at, "PageDown"), { panel: 1, row: 0, column: 4 })
  const next = { ...at, panel: 1, row: 0 }
  assert.deepEqual(step(p, next, "PageDown"), { panel: 2, row: 0, column: 1 })
})

test("a drag selects the cells whose middle it passed, from either side", () => {
  assert.deepEqual(dragged(4.2, 9.2), [5, 9])
  assert.deepEqual(dragged(9.2, 4.2), [5, 9])
  assert.deepEqual(dragged(3, 3.4), [3, 3])
  assert.deepEqual(dragged(-0.5, 0.2).map((n) => n + 0), [0, 0])
})

test("a cell's text has six digits, or words", () => {
  const p = { ...read(message([0.12345678, 2e-9, NaN, 0, 5, 6, 7, 8, 9, 10, 11, 12.5], [3])),
    special: SPECIAL }
  for (const panel of p.panels) Object.assign(panel, { quantity: "weight", hidden: "a later key" })
  const at = (panel, row, column) => cellText(p, { panel, row, column })
  assert.equal(at(0, 0, 0), "weight 0.123457")
  assert.equal(at(0, 0, 1), "weight 2e−9")
  assert.equal(at(0, 0, 2), "NaN, not a number")
  assert.equal(at(0, 1, 0), "a later key")
  assert.equal(at(1, 1, 2), "weight 12.5")
  p.panels[1].hover = ["a", "b", "c", "d", "e", "·fish 33.000 %\nrank 1"]
  assert.equal(at(1, 1, 2), "·fish 33.000 %\nrank 1")
})

test("Shift+click asks why if the panel has an answer; otherwise the cell is chosen", () => {
  const p = { panels: [{ name: "a" }, { name: "b" }], chooses: true, asks: [false, true] }
  const at = { panel: 1, row: 2, column: 3 }
  assert.deepEqual(messageFor(p, at, true), ["ask", at])
  assert.deepEqual(messageFor(p, at, false), ["cell", { panel: "b", row: 2, column: 3 }])
  const cell = { panel: "a", row: 2, column: 3 }
  assert.deepEqual(messageFor(p, { ...at, panel: 0 }, true), ["cell", cell])
  assert.equal(messageFor({ ...p, chooses: false }, at, false), null)
  assert.deepEqual(messageFor({ ...p, chooses: false }, at, true), ["ask", at])
})

test("pictures without the server's description are named by titles and part", () => {
  const panels = [{ title: "Layer 1" }, { title: "Layer 2" }, { title: "Layer 1" }]
  assert.equal(briefAlt({ panels }, [2, 5, 0, 1]), "Layer 1; Layer 2, queries 2 to 4, keys 0.")
  assert.equal(briefAlt({ panels: [{ title: "", quantity: "score" }] }, null),
    "score, the whole text.")
})

const FIVE = ["0 a", "1 b", "2 c", "3 d", "4 e"]

// What the server draws of five tokens, whose cell (q, k) holds 5 q + k, and may be dragged.
function square(part, more = {}) {
  const [a, b, c, d] = part ?? [0, 5, 0, 5], positions = [0, 1, 2, 3, 4]
  const side = [positions, [..."abcde"]]
  const named = (all) => all.map((n) => FIVE[n])
  const grid = (rows, columns) => ({ rowTitle: "query", columnTitle: "key", rows: named(rows),
    columns: named(columns), rowEnds: [], columnEnds: [], square: true, frame: null })
  const panel = { name: "one", title: "One", part: [], grid: 0, low: -24, high: 24, empty: "",
    quantity: "score", hidden: "masked", words: [], hover: [] }
  const cells = (rows, columns) => rows.flatMap((row) => columns.map((column) => 5 * row + column))
  const rows = positions.slice(a, b), columns = positions.slice(c, d)
  const head = { panels: [panel], grids: [grid(rows, columns)], alt: "Both heads.",
    chooses: true, drags: true, asks: [false], special: SPECIAL, legend: [], frames: [], squares: 9,
    rules: [[], []], across: 1, tallest: 500, numbers: 0, plus: false, bar: "", decimals: 2,
    scale: [[0, "#000000"], [1, "#ffffff"]], line: "#000000", frame: "#000000",
    zooms: { part, end: 5, row: null, column: null, axes: [{ rows: side, columns: side }],
      scale: "signed", least: 0, masked: ["later"], legend: true, grows: null } , ...more }
  if (!part) return message(cells(rows, columns), [], head)
  const wholes = { panels: [panel], grids: [grid(positions, positions)] }
  const [shown, all] = [cells(rows, columns), cells(positions, positions)]
  return encode({ ...head, wholes }, Float32Array.from(shown), new Uint8Array(4),
    Float32Array.from(all), new Uint8Array(4))
}

// A view in a page, as much of both as the script uses, 600 pixels wide; and what was sent.
function page() {
  const sent = [], pen = new Proxy({}, { set: () => true, get: (_, name) =>
    name === "measureText" ? () => ({ width: 10 })
      : () => ({ addColorStop() {} }) })
  const part = () => ({ style: {}, replaceChildren() {}, setPointerCapture() {},
    getContext: () => pen, offsetLeft: 0, offsetTop: 0, offsetWidth: 0, offsetHeight: 0 })
  const parts = {}, attributes = {}, view = { clientWidth: 600, clientHeight: 600, dataset: {},
    isConnected: true, classList: { toggle() {} }, matches: () => true, attributes,
    setAttribute: (name, value) => { attributes[name] = value },
    querySelector: (selector) => parts[selector] ??= part() }
  delete globalThis.gpt2viz_state
  Object.assign(globalThis, {
    document: { createElement: part, fonts: { status: "loaded" } }, devicePixelRatio: 1,
    getComputedStyle: () => ({ color: "#000000", fontFamily: "f" }), ImageData: class {},
    ResizeObserver: class { observe() {} }, PopStateEvent: Event,
    location: { search: "", pathname: "/" },
    history: { pushState: (_state, _title, to) => { globalThis.location.search = to } },
    dispatchEvent: () => sent.push("popstate"),
  })
  const draw = (data) => mount({ data, parentElement: { querySelector: () => view },
    setTriggerValue: (...what) => sent.push(what) })
  const over = (from, to) => [["onpointerdown", from], ["onpointermove", to], ["onpointerup", to]]
    .forEach(([name, [row, column]]) => {
      const { x, y, cw, ch } = view.look.boxes[0]
      view.canvas[name]({ button: 0, pointerId: 1, offsetX: x + (column + .5) * cw,
        offsetY: y + (row + .5) * ch })
    })
  return { view, sent, draw, over, shown: () => [...view.p.values],
    zoom: () => new URLSearchParams(globalThis.location.search).get("zoom") }
}

test("a dragged part is shown at once, without a request to the server", () => {
  const { view, sent, draw, over, shown, zoom } = page()
  draw(square(null))
  assert.deepEqual([view.dataset.here, view.attributes["aria-label"]], ["", "Both heads."])
  over([.8, 1.8], [2.2, 4.2])
  assert.deepEqual([zoom(), shown()], ["1,3,2,5", [7, 8, 9, 12, 13, 14]])
  assert.equal(view.attributes["aria-label"], "One, queries 1 to 2, keys 2 to 4.")
  over([.8, .8], [1.2, 2.2]) // counted in what is shown now
  assert.deepEqual([zoom(), shown()], ["2,3,3,5", [13, 14]])
  over([.1, .1], [.4, .4]) // within one cell
  assert.equal(zoom(), "2,3,3,5")
  choose({ zoom: null })
  assert.deepEqual([shown().length, view.attributes["aria-label"]], [25, "Both heads."])
  assert.deepEqual(sent, [])
})

test("a part chosen here stays when the server redraws, until it sends the part itself", () => {
  const { view, draw, shown } = page()
  draw(square(null))
  choose({ zoom: "0,1,0,2" })
  draw(square(null))
  assert.deepEqual(shown(), [0, 1])
  draw(square([0, 1, 0, 2]))
  assert.deepEqual([shown(), view.attributes["aria-label"]], [[0, 1], "Both heads."])
  choose({ zoom: null })
  assert.deepEqual([shown().length, shown()[24]], [25, 24])
  delete globalThis.gpt2viz_state // forgotten, as Back does
  draw(square([0, 1, 0, 2]))
  assert.deepEqual(shown(), [0, 1])
})

test("a click on a cell waits until the server has drawn the shown part", () => {
  const { sent, draw, over } = page()
  draw(square(null))
  over([1, 2], [1, 2])
  assert.deepEqual(sent.splice(0), [["cell", { panel: "one", row: 1, column: 2 }]])
  choose({ zoom: "3,5,0,2" })
  over([1, 0], [1, 0])
  assert.deepEqual(sent.splice(0), ["popstate"])
  draw(square([3, 5, 0, 2]))
  assert.deepEqual(sent.splice(0), [["cell", { panel: "one", row: 1, column: 0 }]])
  draw(square([3, 5, 0, 2]))
  assert.deepEqual(sent, [], "it is sent once")
})

test("a waiting click is dropped if another part is chosen", () => {
  const { sent, draw, over } = page()
  draw(square(null))
  choose({ zoom: "3,5,0,2" })
  over([1, 0], [1, 0])
  choose({ zoom: null })
  draw(square(null))
  assert.deepEqual(sent, ["popstate"])
})

test("a drag is sent to the server if only it can draw the part", () => {
  const { sent, draw, over } = page()
  draw(square(null, { zooms: undefined }))
  over([.8, 1.8], [2.2, 4.2])
  const part = ["part", { panel: "one", rows: [1, 2], columns: [2, 4] }]
  assert.deepEqual(sent.splice(0), [part])
  assert.equal(globalThis.location.search, "")
  draw(square(null))
  takePart({ isConnected: true }, { offers: () => false }) // lines beside it
  over([.8, 1.8], [2.2, 4.2])
  assert.deepEqual(sent, [part])
})

test("focusing a picture sends pending choices, for the server's full description", () => {
  const { view, sent, draw } = page()
  draw(square(null))
  view.onfocus()
  choose({ zoom: "3,5,0,2" })
  assert.deepEqual(sent, [])
  view.onfocus()
  assert.deepEqual(sent, ["popstate"])
})

test("the colour bar's title is beside its ticks and isn't cut, however long it is", () => {
  const bar = "difference of weights".repeat(3)
  for (const [low, high, shown] of [[0, 1, ["0", "0.5", "1"]], [0, 0.03, ["0", "0.03"]],
    [-0.705, 0.705, ["−0.705", "0", "0.705"]]]) {
    const drawn = [], edges = [], ends = [], pen = {
      createLinearGradient: () => ({ addColorStop() {} }),
      measureText: (text) => ({ width: letters(text) }),
      fillText: (text, x) => drawn.push(text) && x && ends.push(x + letters(text)),
      translate: (x) => edges.push(x + 6) }
    for (const name of ["fillRect", "strokeRect", "save", "rotate", "restore"]) pen[name] = () => {}
    const { p, look } = layout({ bar, low, high })
    colorBar(pen, { ...p, scale: [] }, look)
    assert.deepEqual(drawn, [...shown, bar])
    assert.ok(Math.max(...ends) + 5 < edges[0] - 12 && edges[0] <= 800)
  }
})
