// Charts as SVG, written as the text of a page that isn't shown.

import { svgOf } from "../app/scripts/chart.js"

export default function (page, { figures, width, ink, grid }) {
  const written = figures.map((figure) =>
    new XMLSerializer().serializeToString(svgOf(figure, width, ink, grid)))
  page.body.textContent = encodeURIComponent(JSON.stringify(written))
}
