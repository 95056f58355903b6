// A saved page: the app's own painters draw its pictures from the data beside them.

import { cellsOf, inflated, readMatrices } from "../app/scripts/matrices.js"

const SIDES = ["rows", "columns"]

/** The cells that a drag selected in one of several matrices, first and last row and column, and
 * the same cells of all matrices of that size; others stay whole, and so does a side along which
 * the drag passed no cell's middle. */
export function cutOut(p, part) {
  const from = p.panels.find(({ name }) => name === part.panel)
  const shown = p.panels.map((panel) => {
    const alike = SIDES.every((side) => panel[side].length === from[side].length)
    return SIDES.map((side) => alike && part[side][0] <= part[side][1]
      ? [part[side][0], part[side][1] + 1] : [0, panel[side].length])
  })
  const { values, hidden, starts } = cellsOf(p, shown)
  const panels = p.panels.map((panel, n) => {
    const [rows, columns] = shown[n], wide = panel.columns.length
    const isIn = (at, [first, stop]) => first <= at && at < stop
    const cut = (texts) => texts.filter((_, cell) =>
      isIn(Math.floor(cell / wide), rows) && isIn(cell % wide, columns))
    return { ...panel, start: starts[n], frame: null,
      rows: panel.rows.slice(...rows), rowEnds: panel.rowEnds.slice(...rows),
      columns: panel.columns.slice(...columns), columnEnds: panel.columnEnds.slice(...columns),
      words: cut(panel.words), hover: cut(panel.hover) }
  })
  return { ...p, panels, values, masked: (n) => hidden[n], frames: [], rules: [[], []] }
}

// A selected part is drawn in place of the whole; double click or Escape bring the whole back.
function drawMatrices(draw, parentElement, whole) {
  const view = parentElement.querySelector(".tiles")
  const show = (data) =>
    draw({ data, parentElement, setTriggerValue: (_, part) => show(cutOut(view.p, part)) })
  show(whole)
  parentElement.ondblclick = () => show(whole)
  parentElement.onkeydown = ({ key }) => key === "Escape" && view.drawn !== whole && show(whole)
}

export default async function (page, { tiles, chart }) {
  for (const sent of page.querySelectorAll("[data-picture]")) {
    const parentElement = sent.previousElementSibling, message = await inflated(sent.textContent)
    if (sent.dataset.picture === "tiles") drawMatrices(tiles, parentElement, readMatrices(message))
    else chart({ parentElement, setTriggerValue: () => {},
      data: JSON.parse(new TextDecoder().decode(message)) })
  }
}
