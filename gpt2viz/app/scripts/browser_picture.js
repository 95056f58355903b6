// Saves a picture as a file in the user's browser: SVGs that the server drew and charts drawn here,
// from top to bottom, with lines of a caption. A component is recreated when its popover reopens,
// so the page remembers what was saved.

import { svgOf } from "./chart.js"
import { makeSvg } from "./make.js"

const WRITTEN = "http://www.w3.org/2000/svg"

function sheetOf({ parts, caption, width, ink, paper, family }) {
  const sheet = makeSvg("svg", { xmlns: WRITTEN, width, "font-family": family })
  makeSvg("rect", { width: "100%", height: "100%", fill: paper }, sheet)
  let height = 0
  for (const part of parts) {
    const drawn = part.svg
      ? new DOMParser().parseFromString(part.svg, "image/svg+xml").documentElement
      : svgOf(part.chart, width)
    drawn.setAttribute("y", String(height))
    sheet.append(document.importNode(drawn, true))
    height += Number(drawn.getAttribute("height"))
  }
  for (const line of caption)
    makeSvg("text", { x: 8, y: height += 15, fill: ink, "font-size": 11 }, sheet).textContent = line
  height += caption.length && 8
  sheet.setAttribute("height", String(height))
  sheet.setAttribute("viewBox", `0 0 ${width} ${height}`)
  return { sheet, height }
}

// Open the browser's print window with one page as large as the picture.
function print({ sheet, height }, { filename, width }) {
  const frame = document.createElement("iframe")
  frame.style.cssText = "position: fixed; right: 0; bottom: 0; width: 0; height: 0; border: 0"
  document.body.append(frame)
  const page = frame.contentDocument
  page.title = filename
  page.head.append(Object.assign(page.createElement("style"), { textContent: `
    @page { size: ${width}px ${height}px; margin: 0 }
    body { margin: 0 } svg { display: block; max-height: 100vh }` }))
  page.body.append(page.importNode(sheet, true))
  frame.contentWindow.onafterprint = () => frame.remove()
  frame.contentWindow.focus()
  frame.contentWindow.print()
}

const textOf = (sheet) => new XMLSerializer().serializeToString(sheet)

async function pixels({ sheet, height }, { width, scale }) {
  const image = new Image(), canvas = document.createElement("canvas")
  image.src = `data:image/svg+xml,${encodeURIComponent(textOf(sheet))}`
  await image.decode()
  canvas.width = Math.round(width * scale)
  canvas.height = Math.round(height * scale)
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height)
  return new Promise((done) => canvas.toBlob(done, "image/png"))
}

export default async function ({ data, parentElement }) {
  const page = /** @type {any} */ (window), done = (page.gpt2vizSaved ??= new Set())
  if (!data.id || done.has(data.id)) return
  done.add(data.id)
  const made = sheetOf(data)
  if (data.kind === "pdf") return print(made, data)
  const svg = new Blob([textOf(made.sheet)], { type: "image/svg+xml" })
  const href = URL.createObjectURL(data.kind === "png" ? await pixels(made, data) : svg)
  const link = Object.assign(document.createElement("a"),
    { href, download: `${data.filename}.${data.kind}` })
  parentElement.append(link) // within the popover: a click outside would close it
  link.click()
  link.remove()
  setTimeout(URL.revokeObjectURL, 60_000, href)
}
