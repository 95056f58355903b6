// The lens: lines from the chosen head on the map to its large matrix, if that is beside it.

import { makeSvg } from "./make.js"
import { zoomOf } from "./matrix.js"

const lensEnds = {}

/** Redraw the lens from the `square` on the map, or to the `matrix`: a view, and the box in it that
 * this end of the lens touches, null for none.
 *
 * @param {"square" | "matrix"} end @param {{x: number, y: number, w: number, h: number}} box */
export function setLens(end, view, box) {
  lensEnds[end] = { view, box }
  requestAnimationFrame(drawLens)
}

/** The corners of the lens in the map's pixels: from a box in the map, whose position in the window
 * is `map`, to the rows' names of a box of a view at `view`; none if that isn't beside it. */
export function cornersOf(map, { x, y, w, h }, view, matrix, zoom = 1) {
  if (view.left < map.right) return []
  const right = (view.left - map.left) / zoom + matrix.x - matrix.names + 16
  const top = (view.top - map.top) / zoom + matrix.y
  return [[x + w, y], [right, top], [right, top + matrix.h], [x + w, y + h]]
}

function drawLens() {
  const { square, matrix } = lensEnds, svg = square?.view.querySelector(".lens")
  if (!svg) return
  svg.replaceChildren()
  if (!matrix?.box || !matrix.view.isConnected || !matrix.view.offsetParent) return
  const [map, large] = [square, matrix].map(({ view }) => view.getBoundingClientRect())
  const corners = cornersOf(map, square.box, large, matrix.box, zoomOf(svg))
  makeSvg("polygon", { points: corners.join(" ") }, svg)
  if (!corners.length) return
  const [a, b, c, d] = corners, edge = map.width / zoomOf(svg)
  makeSvg("path", { d: beyond(edge, a, b) + beyond(edge, d, c) }, svg)
}

/** The part of a line to the right of `edge`, so that it crosses no other heads.
 *
 * @param {number} edge @param {number[]} from @param {number[]} to */
export const beyond = (edge, [x1, y1], [x2, y2]) =>
  `M${edge} ${y1 + (edge - x1) / (x2 - x1) * (y2 - y1)}L${x2} ${y2}`
