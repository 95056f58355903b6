import assert from "node:assert/strict"
import { test } from "node:test"

import {
  codeOf, cut, ink, paletteOf, pixels, shade, showTip, cellState,
} from "../../gpt2viz/app/scripts/matrix.js"

test("a number in a cell has enough contrast on any colour", () => {
  const share = (c) => c / 255 <= .04045 ? c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4
  const light = ([r, g, b]) => .2126 * share(r) + .7152 * share(g) + .0722 * share(b)
  const pale = [], steps = Array.from({ length: 18 }, (_, n) => 15 * n)
  for (const r of steps) for (const g of steps) for (const b of steps) {
    const word = parseInt(ink([r, g, b]).slice(1), 16)
    const ends = [light([r, g, b]), light([word >> 16, word >> 8 & 255, word & 255])]
    if ((Math.max(...ends) + .05) / (Math.min(...ends) + .05) < 4.5) pale.push([r, g, b])
  }
  assert.deepEqual(pale, []) // WCAG 2.2, 1.4.3
})

test("masked, NaN and infinite differ, and a masked NaN counts as NaN", () => {
  const values = [1, NaN, Infinity, -Infinity, NaN, -Infinity]
  assert.deepEqual(values.map((value, n) => cellState(value, n > 3)), [0, 2, 3, 3, 2, 1])
})

test("a colour is interpolated between the two nearest stops", () => {
  const scale = [[0, "#000000"], [0.25, "#ff0000"], [1, "#ff8040"]]
  assert.deepEqual(shade(scale, 0), [0, 0, 0])
  assert.deepEqual(shade(scale, .125), [128, 0, 0]) // half of the way to the second stop
  assert.deepEqual(shade(scale, .25), [255, 0, 0])
  assert.deepEqual(shade(scale, .625), [255, 64, 32]) // half of the way from there to the last
  assert.deepEqual(shade(scale, 1), [255, 128, 64])
})

const SPECIAL = [["#010203", "#040506"], ["#070809", "#070809"], ["#0a0b0c", "#0a0b0c"]]

test("a cell has the shade of its share, or the chessboard colours of its state", () => {
  const palette = paletteOf([[0, 0, 0], [9, 8, 7], [255, 255, 255]], SPECIAL)
  const codes = [[0, 0], [.7, 0], [9, 0], [-1, 0], [1, 1], [1, 2], [1, 3], [0, 1]]
    .map(([share, state]) => codeOf(palette, share, state))
  assert.deepEqual(codes, [0, 1, 2, 0, 3, 4, 5, 3])
  const bytes = pixels(codes, 4, palette), at = (n) => [...bytes.slice(4 * n, 4 * n + 4)]
  assert.deepEqual([0, 1, 2, 3].map((n) => at(n)[0]), [0, 9, 255, 0])
  assert.deepEqual([at(4), at(5)], [[4, 5, 6, 255], [7, 8, 9, 255]]) // 4 is an odd square
  assert.deepEqual([at(6), at(7)], [[10, 11, 12, 255], [1, 2, 3, 255]])
  assert.deepEqual(palette.inks, ["#ffffff", "#ffffff", "#000000", ...Array(3).fill("#ffffff")])
  assert.equal(pixels([9], 1, palette)[3], 0, "no code, no colour")
})

test("a word is cut if it is too wide", () => {
  const over = (word, room) => cut(word, room, (text) => 6 * text.length)
  assert.equal(over("·crane", 36), "·crane")
  assert.equal(over("·crane", 35), "·cra…")
  assert.equal(over("·Nau…ius", 36), "·Nau…") // never two of the sign
  assert.equal(over("🙂🙂", 18), "🙂…") // a character is whole or left out
  assert.equal(over("·crane", 5), "")
})

test("a tip is beside its box, left of it at the right edge, and never below the view", () => {
  const tip = { style: {}, offsetWidth: 50, offsetHeight: 30 }
  const beside = (box) => {
    showTip(tip, { clientWidth: 200, clientHeight: 100 }, box)
    return [tip.style.left, tip.style.top]
  }
  assert.deepEqual(beside({ x: 10, y: 20, w: 30 }), ["48px", "20px"])
  assert.deepEqual(beside({ x: 140, y: 90, w: 30 }), ["82px", "70px"])
  assert.deepEqual(beside({ x: 20, y: 0, w: 150 }), ["0px", "0px"])
})
