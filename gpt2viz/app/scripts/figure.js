// Bars, curves, points and a lens's curves as figures, which chart.js draws: traces and a layout,
// whose properties have Plotly's names.

import { figureOfWiring } from "./wiring.js"

// The number of names that fit below bars, and of letters beside a lying bar.
const NAMED = 30, LETTERS = 28
// The most upright bars with numbers side by side above them; over more they are turned.
const ABREAST = 12
// Pixels: one of several lying bars of a name, and the gap between names.
const BAR = 13, BETWEEN = 5
// Patterns that distinguish cases of one picture, in their bars.
const PATTERNS = ["", "\\", "x"]

// The colour of a role: a field of the palette, or the n-th of `count` cases.
const colorOf = (colors, role, count) => typeof role === "string" ? colors[role]
  : count === 1 ? colors.accent : colors.sources[role]

// A name without its middle if it is long.
function shortened(name) {
  const letters = [...name], half = LETTERS / 2
  return letters.length <= LETTERS ? name
    : [...letters.slice(0, half), "…", ...letters.slice(1 - half)].join("")
}

const hoverOf = (texts, name) => texts.map((text) => `${text}\n${name}`.trimEnd())

// One trace per case: names are at the axis, numbers at the bars' ends.
function figureOfBars({ names, ticks, cases, quantity, across, colors }) {
  const sharing = names.map((_, n) => cases.filter(({ at }) => at.includes(n)).length)
  const most = Math.max(1, ...sharing), named = cases.some(({ name }) => name)
  const turned = !across && names.length > ABREAST, words = ticks.length ? ticks : names
  const data = cases.map(({ name, at, values, role, written, hover, rest }) => ({
    type: "bar", name, orientation: across ? "h" : "v",
    x: across ? values : at, y: across ? at : values,
    marker: { color: colorOf(colors, role, cases.length),
      pattern: { shape: patternOf(role, rest, at.length) } },
    text: written, textangle: turned ? -90 : 0, hovertext: hoverOf(hover, name),
  }))
  const above = turned && cases.some(({ written }) => written.length) ? 26 : 0
  const layout = across ? lying(words, most) : upright(words, cases.length, named, above)
  const numbers = { title: quantity, rangemode: "tozero" }
  return { data, layout: { ...layout, [across ? "xaxis" : "yaxis"]: numbers,
    barmode: most > 1 ? "group" : "overlay", showlegend: named } }
}

// The fill of `count` bars: a case's own pattern, and another for a last bar of many things.
function patternOf(role, rest, count) {
  const own = PATTERNS[role] ?? ""
  return rest ? [...Array(count - 1).fill(own), "/"] : own
}

// Bars from the top down, up to `most` of them per name. Each is as tall as its number, which would
// otherwise overlap the next one.
function lying(names, most) {
  const height = Math.max(26, BAR * most + BETWEEN)
  return {
    yaxis: { tickvals: [...names.keys()], ticktext: names.map(shortened),
      range: [names.length - .5, -.5] },
    height: 80 + height * names.length, margin: { t: 30, r: 56 },
    bargap: most > 1 ? BETWEEN / height : .35,
  }
}

// Bars from left to right, of `count` cases; `named` ones get a legend above, and turned numbers
// more room `above` them.
function upright(names, count, named, above) {
  const step = Math.ceil(names.length / NAMED)
  const tickvals = [...names.keys()].filter((n) => n % step === 0)
  return {
    xaxis: { tickvals, ticktext: tickvals.map((n) => names[n]), range: [-.5, names.length - .5] },
    height: (named ? 260 : 230) + above, margin: { t: (named ? 34 : 22) + above },
    bargap: 1 - Math.min(.8, count * (.05 + .05 * names.length)), // else a few bars are wide
  }
}

// One line per curve, distinguished by colour, dash and point symbols.
function figureOfCurves({ curves, x_title, y_title, log, lowest, highest, colors }) {
  const count = new Set(curves.map(({ role }) => role).filter(Number.isInteger)).size
  const named = curves.some(({ x }) => x.some((value) => typeof value === "string"))
  const data = curves.map(({ name, x, y, role, hover, dash, point }) => ({
    x, y, name, mode: point ? "lines+markers" : "lines",
    line: { color: colorOf(colors, role, count), dash }, marker: point ? { symbol: point } : {},
    hovertext: hoverOf(hover, name),
  }))
  return { data, layout: {
    xaxis: { title: x_title, type: log ? "log" : undefined },
    yaxis: { title: y_title, ...highest !== null ? { range: [lowest, highest] }
      : lowest === 0 ? { rangemode: "tozero" } : {} },
    margin: { t: named ? 50 : 34 } } }
}

// The free space at the sides of points for names at the edge, as a share of the width.
const FREE = .15

const fourDigits = (number) => Number(number?.toPrecision(4))

// Circles, and diamonds for those `made`, at true relative distances.
function figureOfPoints({ names, x, y, x_title, y_title, made, colors }) {
  const [low, high] = names.length ? [Math.min(...x), Math.max(...x)] : [0, 0]
  const free = FREE * (high - low) || 1, points = names.map((_, n) => [x[n], y[n]])
  const look = (computed, given) => names.map((_, n) => made.includes(n) ? computed : given)
  const data = [{
    x, y, text: names, mode: "markers+text",
    textposition: points.map((point) => sideOf(point, points.filter((other) => other !== point))),
    marker: { size: look(13, 9), symbol: look("diamond-open", "circle"),
      color: look(colors.second, colors.accent), line: { width: 2 } },
    hovertext: names.map((name, n) => `${name}\n${fourDigits(x[n])}, ${fourDigits(y[n])}`),
  }]
  return { data, layout: { xaxis: { title: x_title, range: [low - free, high + free] },
    yaxis: { title: y_title, scaleanchor: "x" }, margin: { t: 24 } } }
}

// The side of a point for its name: away from the nearest of the others.
function sideOf([x, y], others) {
  const away = others.map(([a, b]) => [x - a, y - b])
  away.sort((first, second) => Math.hypot(...first) - Math.hypot(...second))
  const [across, up] = away[0] ?? [0, 1]
  if (Math.abs(across) > Math.abs(up)) return across > 0 ? "middle right" : "middle left"
  return up < 0 ? "bottom center" : "top center"
}

// The left and the right half of a lens's curves, in shares of the width.
const HALVES = [[0, .46], [.54, 1]]
// Pixels: where the canvas begins the first row of a matrix with a title of one line; below curves,
// numbers and their title, and the legend.
const ROWS_BEGIN = 20, UNDER = 60, LEGEND_UNDER = 30

// Rank and entropy of every reading, in rows `row` pixels high, as those of the matrix on the
// canvas beside them. Rows are `named` unless that matrix is there; the legend has each reading
// once.
function figureOfLens({ rows, readings, titles, row, named = true, colors }) {
  const data = readings.flatMap(({ name, rank, entropy, roles, point }) => {
    const texts = [rank.map((n) => `rank ${n.toLocaleString("en")}`),
      entropy.map((bits) => `${bits?.toFixed(3) ?? "NaN"} bits`)]
    return ["", "2"].map((axis, n) => ({
      x: [rank, entropy][n], y: rows, xaxis: `x${axis}`, yaxis: `y${axis}`, name,
      mode: "lines+markers", marker: { symbol: point },
      line: { color: colorOf(colors, roles[n], readings.length) },
      hovertext: hoverOf(texts[n].map((text, at) => `${rows[at]}\n${text}`), name),
      showlegend: Boolean(name) && !n,
    }))
  })
  const bottom = UNDER + (readings.some(({ name }) => name) ? LEGEND_UNDER : 0)
  const range = [rows.length - .5, -.5]
  return { data, layout: {
    xaxis: { domain: HALVES[0], title: "1 = first", range: [-.1, null], type: "log", tickangle: 0 },
    xaxis2: { domain: HALVES[1], rangemode: "tozero" },
    yaxis: { range, showticklabels: named }, yaxis2: { range, showticklabels: false },
    annotations: titles.map((text, n) => ({ text, x: (HALVES[n][0] + HALVES[n][1]) / 2 })),
    legend: { yref: "container" }, // under the numbers
    height: ROWS_BEGIN + row * rows.length + bottom,
    margin: { t: ROWS_BEGIN, b: bottom, autoexpand: named } } }
}

const FIGURES = { Bars: figureOfBars, Curves: figureOfCurves, Lens: figureOfLens,
  Points: figureOfPoints, Wiring: figureOfWiring }

/** The figure of a picture, of the kind and with the fields that pictures/chart.py sends; a
 * `height` replaces its own.
 *
 * @returns {any} */
export function figureOf({ kind, ...picture }) {
  const figure = FIGURES[kind](picture)
  const { colors, dashes, height = figure.layout.height } = picture
  return { ...figure, layout: { ...figure.layout, height }, grid: colors.grid, dashes }
}
