// The head view: tokens on both sides, lines between them, numbers on demand.

const DASHES = ["", "9 4", "2 3", "10 3 2 3"]
const BORDERS = ["none", "dashed", "dotted", "double"]

function made(tag, name = "", text = "") {
  const part = document.createElement(tag)
  part.className = name
  part.textContent = text
  return part
}

function drawn(tag, attributes) {
  const part = document.createElementNS("http://www.w3.org/2000/svg", tag)
  for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value)
  return part
}

const place = ({ dataset }) => `${dataset.source} ${dataset.query} ${dataset.key}`
const width = (path) => path?.getAttribute("stroke-width") ?? 0

function swell(path, from, to) {
  const widths = [{ strokeWidth: `${from}px` }, { strokeWidth: `${to}px` }]
  return path.animate(widths, { duration: 350, easing: "ease-out" })
}

// By what is drawn, and of which tokens: its lines. The page makes the view anew as it changes.
const drawnLast = new Map()

// The lines of before become those of now: what the mask or an edit did to the same head.
function move(svg, before) {
  const gone = drawn("g", { class: "gone" })
  const now = new Set([...svg.querySelectorAll(".rest path")].map(place))
  for (const path of svg.querySelectorAll("path")) {
    const from = width(before.get(place(path)))
    const known = now.has(place(path)) || from  // else it is too thin to be drawn at rest
    if (known && from !== width(path)) swell(path, from, width(path))
  }
  for (const [ends, path] of before) if (!now.has(ends)) {
    gone.append(path)
    swell(path, width(path), 0).onfinish = () => path.remove()
  }
  svg.append(gone)
}

export default function ({ data, parentElement, setTriggerValue }) {
  const { sources, queries, keys, peak, rest, chosen, colors, hint } = data
  const pitch = queries.length > 64 ? 14 : queries.length > 24 ? 18 : 26
  const height = Math.max(queries.length, keys.length) * pitch
  const view = parentElement.querySelector(".view")
  const scroll = view.querySelector(".scroll"), say = view.querySelector(".say")
  const old = view.getRootNode().activeElement, top = scroll.scrollTop
  view.setAttribute("aria-label", data.alt)
  say.style.setProperty("--told", 1 + sources.length)

  const middle = (n, s) => (n + .5) * pitch + (s - (sources.length - 1) / 2) * pitch / 7
  const line = (s, n) => {
    const { q, k, v } = sources[s], share = Math.min(1, v[n] / peak)
    const [a, b] = [middle(q[n], s), middle(k[n], s)]
    return drawn("path", {
      d: `M0 ${a} C50 ${a} 50 ${b} 100 ${b}`, stroke: colors[s],
      "stroke-width": .6 + 6.4 * share, "stroke-opacity": .25 + .7 * share,
      "stroke-dasharray": DASHES[s], "data-source": s, "data-query": q[n], "data-key": k[n],
    })
  }

  const heads = view.querySelector(".heads")
  heads.replaceChildren(...(sources.length < 2 ? [] : sources.map(({ name }, s) => {
    const entry = made("span"), sample = drawn("svg", { "aria-hidden": true })
    sample.append(drawn("line", { x1: 0, x2: 28, y1: 5, y2: 5, stroke: colors[s],
      "stroke-width": 3, "stroke-dasharray": DASHES[s] }))
    entry.append(sample, made("span", "", name))
    return entry
  })))

  const rows = made("div", "rows")
  rows.style.height = `${height}px`
  const box = { viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", height }
  const svg = drawn("svg", { ...box, "aria-hidden": true })
  const resting = drawn("g", { class: "rest" }), lit = drawn("g", { class: "lit" })
  sources.forEach(({ v }, s) => v.forEach((weight, n) => {
    if (weight >= rest) resting.append(line(s, n))
  }))
  svg.append(resting, lit)
  rows.append(svg)

  const sides = { q: queries, k: keys }, buttons = { q: [], k: [] }
  const doing = { q: "query", k: "key" }
  const named = (side, n) => `${sides[side][n][0]} “${sides[side][n][1]}”`
  for (const side of ["q", "k"])
    sides[side].forEach(([place, label], n) => {
      const button = made("button", side, label)
      button.type = "button"
      button.tabIndex = n === Math.max(0, chosen) ? 0 : -1
      button.setAttribute("aria-label", `${doing[side]} ${place} ${label}`)
      button.style.cssText = `top:${n * pitch}px;height:${pitch}px;` +
        `line-height:${pitch}px;font-size:${Math.min(13, pitch - 3)}px`
      button.onpointerenter = button.onfocus = () => point(side, n)
      button.onclick = () => side === "q" && setTriggerValue("query", n)
      button.onkeydown = (event) => walk(event, side, n)
      buttons[side].push(button)
      rows.append(button)
    })

  function walk(event, side, n) {
    const last = sides[side].length - 1
    const to = { ArrowDown: n + 1, ArrowUp: n - 1, Home: 0, End: last }[event.key]
    const across = { ArrowRight: "k", ArrowLeft: "q" }[event.key]
    if (to === undefined && !across) return
    event.preventDefault()
    const goal = buttons[across ?? side]
    const next = goal[Math.min(Math.max(to ?? n, 0), goal.length - 1)]
    for (const button of goal) button.tabIndex = button === next ? 0 : -1
    next.focus()
  }

  function clear() {
    svg.classList.remove("pointed")
    lit.replaceChildren()
    rows.querySelectorAll(".numbers").forEach((part) => part.remove())
    rows.querySelectorAll("button").forEach((part) => part.classList.remove("here", "there"))
    say.replaceChildren(made("div", "hint", hint))
  }

  function point(side, n) {
    clear()
    svg.classList.add("pointed")
    buttons[side][n].classList.add("here")
    const other = side === "q" ? "k" : "q", numbers = new Map(), told = []
    sources.forEach((source, s) => {
      const mine = source[side].flatMap((end, m) => end === n ? [m] : [])
      mine.sort((a, b) => source.v[b] - source.v[a])
      for (const m of mine) {
        lit.append(line(s, m))
        const end = source[other][m]
        if (!numbers.has(end)) numbers.set(end, made("div", "numbers"))
        const number = made("span", "", source.v[m].toFixed(data.decimals))
        number.style.color = colors[s]
        number.style.borderBottomStyle = BORDERS[s]
        numbers.get(end).append(number)
      }
      const most = mine.slice(0, 4).map((m) =>
        `${named(other, source[other][m])} ${source.v[m].toFixed(data.decimals + 1)}`)
      const more = mine.length > 4 ? ` and ${mine.length - 4} more` : ""
      told.push((sources.length > 1 ? `${source.name}: ` : "") +
        (most.join(", ") || "nothing that is drawn") + more)
    })
    for (const [end, part] of numbers) {
      part.style.cssText = `top:${(end + .5) * pitch}px;` +
        `${side === "q" ? "right" : "left"}:var(--side)`
      buttons[other][end].classList.add("there")
      rows.append(part)
    }
    const does = side === "q" ? "looks at" : "is looked at by"
    const lines = [`${named(side, n)} ${does}`, ...told]
    say.replaceChildren(...lines.map((text) => made("div", "", text)))
  }

  const settle = () => {
    const focused = view.getRootNode().activeElement
    const side = ["q", "k"].find((name) => buttons[name].includes(focused))
    if (side) point(side, buttons[side].indexOf(focused))
    else if (chosen >= 0) point("q", chosen)
    else clear()
  }
  rows.onpointerleave = settle
  rows.onfocusout = (event) => rows.contains(event.relatedTarget) || setTimeout(settle)
  const was = old && scroll.contains(old) ? old.getAttribute("aria-label") : null
  scroll.replaceChildren(rows)
  scroll.scrollTop = top
  settle()
  const ends = JSON.stringify([data.shows, queries, keys]), before = drawnLast.get(ends)
  if (before && !matchMedia("(prefers-reduced-motion: reduce)").matches) move(svg, before)
  drawnLast.delete(ends)
  drawnLast.set(ends, new Map([...resting.children].map((path) => [place(path), path])))
  if (drawnLast.size > 8) drawnLast.delete(drawnLast.keys().next().value)
  if (was) [...rows.children].find((part) => part.getAttribute("aria-label") === was)?.focus()
}
