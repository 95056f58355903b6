// Charts as SVG, each with its height, written as the text of a page that isn't shown.

import { svgOf } from "../app/scripts/chart.js"

export default function (page, { pictures, width }) {
  const written = pictures.map((picture) => {
    const drawn = svgOf(picture, width)
    return [new XMLSerializer().serializeToString(drawn), Number(drawn.getAttribute("height"))]
  })
  page.body.textContent = encodeURIComponent(JSON.stringify(written))
}
