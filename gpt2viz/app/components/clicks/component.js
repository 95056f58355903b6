// Clicks on the cells of Plotly's charts, and parts that are dragged out. Listens to Plotly's own
// click event on every chart of one container. Plotly may build the chart after this script ran, or
// build it anew, hence the observer. Plotly's own zoom is off: it would leave a part behind that no
// title names.

// As long as the pointer moved less, in pixels, it has clicked: Plotly's own limit.
const CLICK = 8

// What was dragged from `down` to a point, inside a rectangle: its ends, and whether it is a drag.
export function stretch(down, { clientX, clientY }, edge) {
  const ends = (a, b, low, high) =>
    [a, b].map((n) => Math.min(Math.max(n, low), high)).sort((m, n) => m - n)
  return {
    across: ends(down.clientX, clientX, edge.left, edge.right),
    along: ends(down.clientY, clientY, edge.top, edge.bottom),
    far: Math.hypot(clientX - down.clientX, clientY - down.clientY) >= CLICK,
  }
}

// The first and the last cell of an axis whose middle lies between two pixels of the window, where
// the chart begins at `from`.
export function cells(axis, ends, from) {
  const [low, high] = ends.map((pixel) => axis.p2l(pixel - from - axis._offset))
  return [Math.ceil(low), Math.floor(high)]
}

// Plotly's axis of a short name such as "x2".
const axisOf = (plot, name) => plot._fullLayout[`${name[0]}axis${name.slice(1)}`]

// The part of the picture at the axes x and y that a drag has taken in.
function part(plot, x, y, { across, along }) {
  const box = plot.getBoundingClientRect()
  const on = (trace, name) => (trace[`${name[0]}axis`] ?? name[0]) === name
  return {
    panel: plot.data.find((trace) => on(trace, x) && on(trace, y))?.meta ?? "",
    rows: cells(axisOf(plot, y), along, box.top),
    columns: cells(axisOf(plot, x), across, box.left),
  }
}

// Send the cells whose middle is dragged over, in the picture (x, y) that the pointer is on.
function drag(plot, down, send) {
  const pad = down.button ? null : down.target.closest?.(".nsewdrag[data-subplot]")
  if (!pad) return
  const [x, y] = pad.dataset.subplot.match(/[xy][0-9]*/g), edge = pad.getBoundingClientRect()
  const band = document.createElement("div")
  band.style.cssText = "position: fixed; pointer-events: none; z-index: 1000; opacity: .25;"
    + "background: var(--st-primary-color, #3550c8)"
  const move = (event) => {
    const { across: [left, right], along: [top, bottom], far } = stretch(down, event, edge)
    Object.assign(band.style, { left: `${left}px`, top: `${top}px`,
      width: `${right - left}px`, height: `${bottom - top}px` })
    if (far && !band.parentNode) document.body.append(band)
  }
  const over = new AbortController()
  const end = () => {
    over.abort()
    band.remove()
  }
  const up = (event) => {
    end()
    const dragged = stretch(down, event, edge)
    if (dragged.far) send(part(plot, x, y, dragged))
  }
  const then = { pointermove: move, pointerup: up, pointercancel: end }
  for (const name in then)
    addEventListener(name, then[name], { capture: true, signal: over.signal })
}

export default function ({ data, setTriggerValue, parentElement }) {
  const attach = () => {
    for (const plot of document.querySelectorAll(`.st-key-${data.area} .js-plotly-plot`)) {
      if (plot.clickSource === parentElement || !plot.on) continue
      plot.removeAllListeners?.("plotly_click")
      plot.clickSource = parentElement
      plot.on("plotly_click", ({ points: [point] }) => {
        if (!Array.isArray(point.pointIndex)) return
        const [row, column] = point.pointIndex
        setTriggerValue("cell", { panel: point.data.meta ?? "", row, column })
      })
      if (data.drag)
        plot.onpointerdown = (down) => drag(plot, down, (found) => setTriggerValue("part", found))
    }
  }
  attach()
  const observer = new MutationObserver(attach)
  observer.observe(document.body, { childList: true, subtree: true })
  return () => observer.disconnect()
}
