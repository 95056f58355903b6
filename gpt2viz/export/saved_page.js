// A saved page: the app's own painters draw its pictures from the data beside them.

import { inflated, readMatrices } from "../app/scripts/matrices.js"

const everything = ({ rows, columns }) => ({ rows: [0, rows.length - 1],
  columns: [0, columns.length - 1] })

/** The cells that a drag selected in one of several matrices, first and last row and column, and
 * the same cells of all matrices of that size; others stay whole. */
export function cutOut(p, part) {
  const from = p.panels.find(({ name }) => name === part.panel), values = [], hidden = []
  const panels = p.panels.map((panel) => {
    const { start, rows, columns, words, hover } = panel
    const alike = rows.length === from.rows.length && columns.length === from.columns.length
    const { rows: [top, bottom], columns: [left, right] } = alike ? part : everything(panel)
    const within = (names, first, last) => names.slice(first, last + 1), cells = []
    for (let row = top; row <= bottom; row++)
      for (let column = left; column <= right; column++) cells.push(row * columns.length + column)
    const begins = values.length
    for (const cell of cells) {
      values.push(p.values[start + cell])
      hidden.push(p.masked(start + cell))
    }
    return { ...panel, start: begins, frame: null,
      rows: within(rows, top, bottom), rowEnds: within(panel.rowEnds, top, bottom),
      columns: within(columns, left, right), columnEnds: within(panel.columnEnds, left, right),
      words: words.length ? cells.map((cell) => words[cell]) : [],
      hover: hover.length ? cells.map((cell) => hover[cell]) : [] }
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
