// Charts as SVG in a page that nobody sees, whose text they become.

import { svgOf } from "../app/scripts/chart.js"

export default function (page, { figures, width, ink, grid }) {
  const written = figures.map((figure) =>
    new XMLSerializer().serializeToString(svgOf(figure, width, ink, grid)))
  page.body.textContent = encodeURIComponent(JSON.stringify(written))
}
