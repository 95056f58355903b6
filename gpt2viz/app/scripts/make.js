// Makes elements, appended to another if given. Their text is untrusted: it is never markup.

export function make(tag, into = null, text = "", name = "") {
  const made = document.createElement(tag)
  if (tag === "button") made.type = "button" // none submits a form
  if (text) made.textContent = text
  if (name) made.className = name
  into?.append(made)
  return made
}

/** The same for SVG elements. */
export function makeSvg(tag, attributes, into = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag)
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value)
  into?.append(made)
  return made
}

/** A number with n decimals, and no −0. */
export const fixed = (x, n) => (Number(x.toFixed(n)) + 0).toFixed(n).replace("-", "−")

/** The index that a key leads to from the n-th of `count` in a list; undefined for other keys. */
export function nextIndex(key, n, count) {
  const by = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1, Home: -count, End: count }
  return Object.hasOwn(by, key) ? Math.min(Math.max(n + by[key], 0), count - 1) : undefined
}

/** Move the focus from a `part` of a list to the one that the pressed key leads to. */
export function walkList(event, parts, part) {
  const from = parts.indexOf(part), to = nextIndex(event.key, from, parts.length)
  if (from < 0 || to === undefined || isShortcut(event)) return
  event.preventDefault()
  parts[to].focus()
}

/** Whether a key is held with others, as in a shortcut of the browser. */
export const isShortcut = ({ altKey, ctrlKey, metaKey }) => altKey || ctrlKey || metaKey
