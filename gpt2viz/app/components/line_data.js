// Matrices that were sent for a canvas, as what the lines' script draws.

/** A token's place in the text, and its label: a name has both, but for a label that is the
 * place. */
export const placeIn = (name) => [parseInt(name), name.slice(name.indexOf(" ") + 1)]

/** Some of the panels that were read, by their numbers and with names that tell them apart, in one
 * picture of lines; `settings` is what Python sends for lines: see lines/__init__.py. */
export function lineData(p, numbers, names, settings) {
  const drawn = numbers.slice(0, names.length).map((n) => p.panels[n])
  const [{ rows, columns, quantity, frame }] = drawn, size = rows.length * columns.length
  return { ...settings, quantity, queries: rows.map(placeIn), keys: columns.map(placeIn),
    chosen: frame && frame[0] === frame[1] ? frame[0] : -1,
    colors: settings.colors.slice(0, drawn.length),
    matrices: drawn.map(({ start }, n) => ({
      name: names[n], values: p.values.subarray(start, start + size),
      hidden: Array.from({ length: size }, (_, cell) => p.masked(start + cell)) })) }
}
