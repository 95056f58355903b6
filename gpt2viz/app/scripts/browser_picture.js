// A picture as a file of the browser's own. Streamlit brings Plotly into the page with the first
// chart, though under no name: the camera of any chart leads to it, and is given a figure of ours
// in place of its chart. A component starts anew when its popover opens again, so what was saved
// is remembered by the page.

// One page as large as the picture, for the browser's own window to print or save.
async function print(address, { filename, width, height }) {
  const svg = await (await fetch(address)).text()
  const frame = document.createElement("iframe")
  frame.style.cssText = "position: fixed; right: 0; bottom: 0; width: 0; height: 0; border: 0"
  document.body.append(frame)
  const page = frame.contentDocument
  page.title = filename
  page.head.append(Object.assign(page.createElement("style"), { textContent: `
    @page { size: ${width}px ${height}px; margin: 0 }
    body { margin: 0 } svg { display: block; max-height: 100vh }` }))
  page.body.append(page.importNode(
    new DOMParser().parseFromString(svg, "image/svg+xml").documentElement, true))
  frame.contentWindow.onafterprint = () => frame.remove()
  frame.contentWindow.focus()
  frame.contentWindow.print()
}

export default function ({ data }) {
  const page = /** @type {any} */ (window), done = (page.gpt2vizSaved ??= new Set())
  if (!data.id || done.has(data.id)) return
  const save = (chart, camera) => {
    done.add(data.id)
    // Plotly clicks on a link of its own in the page, which would close the popover.
    const own = (event) => {
      if (!event.target.download) return
      event.stopPropagation()
      window.removeEventListener("click", own, true)
      if (!data.print) return
      event.preventDefault()
      print(event.target.href, data.options)
    }
    window.addEventListener("click", own, true)
    const { data: traces, layout } = JSON.parse(data.figure)
    camera.click({
      data: traces,
      layout,
      config: chart._context,
      _context: { ...chart._context, toImageButtonOptions: data.options },
    })
  }
  const look = () => {
    for (const chart of document.querySelectorAll(".js-plotly-plot")) {
      const buttons = /** @type {any} */ (chart)._fullLayout?._modeBar?.buttons?.flat() ?? []
      const camera = buttons.find((button) => button.name === "toImage")
      if (camera) return save(chart, camera)
    }
    waiting = setTimeout(look, 100)
  }
  let waiting
  look()
  return () => clearTimeout(waiting)
}
