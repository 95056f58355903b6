// An element in another one.

/** A new element at the end of another. Its text is anybody's: never markup. */
export function make(tag, into, text = "", name = "") {
  const made = document.createElement(tag)
  if (text) made.textContent = text
  if (name) made.className = name
  into.append(made)
  return made
}
