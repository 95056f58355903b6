import assert from "node:assert/strict"
import { test } from "node:test"

import {
  arrowEnds, paintsAlike, fitting, groupsOf, headsOf, lit, sameTokens, plan, read, rowOf, step,
  tokenOf, turn, under,
} from "../../gpt2viz/app/scripts/model_map.js"
import { message as sent } from "./message.js"

const SPECIAL = [["#010203", "#040506"], ["#070809", "#070809"], ["#0a0b0c", "#0a0b0c"]]
const MODEL = { layers: 3, heads: 4 }

// A message of two heads of 2 × 2.
const message = (cells) => sent({ layers: 1, heads: 2, rows: ["a", "b"], columns: ["a", "b"],
  alt: "“schön”", shades: ["#000000", "#102030", "#ffffff"], special: SPECIAL },
  new Uint8Array(cells))

test("a message is read from the middle of a buffer, with every cell", () => {
  const cells = [2, 0, 1, 255, 4, 3, 5, 0], beside = new Uint8Array(message(cells).length + 3)
  beside.set(message(cells), 3)
  const p = read(beside.subarray(3))
  assert.deepEqual([...p.cells], cells)
  assert.equal(p.alt, "“schön”")
})

test("heads with fewer rows than columns have every cell in its position", () => {
  const cells = [0, 1, 2, 3, 3, 0, 4, 5, 3, 2, 1, 0], columns = ["a", "b", "c"]
  const red = headsOf({ ...read(message(cells)), columns })
    .map((bytes) => [0, 4, 8, 12, 16, 20].map((n) => bytes[n]))
  assert.deepEqual(red, [[0, 16, 255, 4, 1, 0], [7, 10, 1, 255, 16, 0]])
})

test("heads are repainted if a cell, a colour or their number changes", () => {
  const p = read(message([2, 3, 1, 3, 4, 3, 5, 0])), same = read(message([...p.cells]))
  assert.ok(paintsAlike(p, same))
  assert.ok(!paintsAlike(p, read(message([2, 3, 1, 3, 4, 3, 5, 1]))))
  assert.ok(!paintsAlike(p, { ...same, shades: ["#000000", "#102030", "#fffffe"] }))
  assert.ok(!paintsAlike(p, { ...same, layers: 2, heads: 1 }))
})

test("the pointed token is kept while heads and tokens are the same", () => {
  const p = { ...MODEL, tokens: ["0 a", "1 b"] }
  assert.ok(sameTokens(p, { ...p, tokens: [...p.tokens], token: 1 }))
  assert.ok(!sameTokens(p, { ...p, tokens: ["0 a", "1 c"] }))
  assert.ok(!sameTokens(p, { ...p, layers: 4 }))
  assert.deepEqual([-1, 0, 2].map((token) => lit({ p: { ...p, token: 1 }, token })), [1, 0, 1])
})

test("heads are in their layers' rows without overlap, within width and height", () => {
  for (const [layers, heads] of [[4, 6], [12, 12], [1, 1], [3, 40]]) {
    const { boxes, side, height } = plan({ layers, heads }, 760, 600)
    assert.equal(boxes.length, layers * heads)
    boxes.forEach(({ x, y }, n) => {
      assert.ok(x + side <= 760 && y + side <= height)
      if (n % heads) assert.ok(x >= boxes[n - 1].x + side + 3 && y === boxes[n - 1].y)
      if (n >= heads) assert.ok(y >= boxes[n - heads].y + side + 3 && x === boxes[n - heads].x)
    })
    assert.ok(height <= 600)
  }
  assert.ok(plan({ layers: 4, heads: 6 }, 760, 600).side > 100)
  const { boxes: [first], height, side } = plan({ layers: 2, heads: 1, bare: true }, 760, 130)
  assert.ok(first.y < 20 && height - first.y - 2 * side < 15, "without the stream round them")
  assert.ok(plan({ layers: 12, heads: 12 }, 340, 600).side > 18, "on a telephone")
})

test("layers become columns if there are more layers than heads, for larger heads", () => {
  const deep = { layers: 30, heads: 9 }, { boxes, side, turned, height } = plan(deep, 800, 640)
  assert.ok(turned && side >= 20 && height <= 640)
  boxes.forEach(({ x, y }, n) => {
    assert.ok(x + side <= 800)
    if (n % 9) assert.ok(y >= boxes[n - 1].y + side + 3 && x === boxes[n - 1].x)
    if (n >= 9) assert.ok(x >= boxes[n - 9].x + side && y === boxes[n - 9].y)
  })
  const low = [[deep, 400, 24], [{ ...deep, bare: true }, 800, 24], [MODEL, 800, 58]]
  for (const [model, width, left] of low) // with room for the layers' numbers
    assert.deepEqual([plan(model, width, 640).turned, plan(model, width, 640).left], [false, left])
  const go = (direction) => step(deep, 40, `Arrow${direction}`, true)
  assert.deepEqual(["Up", "Down", "Left", "Right"].map(go), [39, 41, 31, 49])
})

test("only heads that share keys and values are joined", () => {
  assert.deepEqual(groupsOf({ heads: 9, groups: 3 }), [[0, 2], [3, 5], [6, 8]])
  assert.deepEqual(groupsOf({ heads: 4, groups: 1 }), [[0, 3]])
  for (const alone of [{ heads: 9, groups: 9 }, { heads: 9 }]) assert.deepEqual(groupsOf(alone), [])
})

test("a point belongs to a row of a head, or lies between heads", () => {
  const look = plan(MODEL, 400, 400), { x, y } = look.boxes[6], { side } = look
  assert.deepEqual(under(look, 5, x, y), { head: 6, row: 0 })
  assert.deepEqual(under(look, 5, x + side / 2, y + .7 * side), { head: 6, row: 3 })
  assert.deepEqual(under(look, 5, x + side - 1, y + side - .1), { head: 6, row: 4 })
  assert.equal(under(look, 5, x + side + 1, y + 3), null)
  assert.equal(under(look, 5, x, y - 2), null)
})

test("a row of a long text covers the tokens up to the next row's", () => {
  const starts = [0, 2, 5]
  assert.deepEqual([0, 1, 2, 4, 5, 9].map((n) => rowOf(starts, n)), [0, 0, 1, 1, 2, 2])
  assert.deepEqual([0, 1, 2].map((row) => tokenOf({ starts, token: -1 }, row)), [0, 2, 5])
  assert.deepEqual([0, 1, 2].map((row) => tokenOf({ starts, token: 4 }, row)), [0, 4, 5])
})

test("arrow keys move between heads and stop at the edges", () => {
  const go = (head, direction) => step(MODEL, head, `Arrow${direction}`)
  assert.deepEqual(["Up", "Down", "Left", "Right"].map((name) => go(5, name)), [1, 9, 4, 6])
  assert.deepEqual([go(0, "Up"), go(0, "Left"), go(11, "Down"), go(11, "Right"), go(3, "Right")],
    [0, 0, 11, 11, 3])
})

test("Page Up and Page Down move between tokens", () => {
  const tokens = ["a", "b", "c"]
  const go = (token, key) => turn({ tokens }, token, key)
  assert.deepEqual([go(-1, "PageDown"), go(-1, "PageUp")], [0, 2])
  assert.deepEqual([go(1, "PageDown"), go(1, "PageUp"), go(2, "PageDown"), go(0, "PageUp")],
    [2, 0, 2, 0])
})

test("words that don't fit are replaced by an ellipsis", () => {
  const measure = (text) => text.length
  assert.equal(fitting(["in:", "a", "b"], 99, measure), "in:  a  b")
  assert.equal(fitting(["in:", "a", "b"], 9, measure), "in:  a  b")
  assert.equal(fitting(["in:", "a", "b"], 8, measure), "in:  a …")
})

test("an arrow goes from a head, or from the tokens, to the top of another head", () => {
  const look = plan(MODEL, 400, 400), { boxes, side } = look, half = side / 2
  assert.deepEqual(arrowEnds(look, [1, 10]), [[boxes[1].x + half, boxes[1].y + half],
    [boxes[10].x + half, boxes[10].y - 1]])
  const [[x, y], end] = arrowEnds(look, [-1, 6])
  assert.ok(x === end[0] && x === boxes[6].x + half && y < boxes[0].y)
})
