// Scripts that one component of the page brings, and others wait for by their names: see `bundled`
// in components/__init__.py.

/** Where a script is handed on by its name: a promise of it, and what keeps that promise. */
export function handed(name, page = globalThis) {
  if (!page[name]) {
    let give
    page[name] = { script: new Promise((done) => { give = done }), give }
  }
  return page[name]
}

/** Draw a component of Streamlit's by what is handed on, in its style, which is put there once. */
export async function drawnBy(name, one, page = globalThis) {
  const { style, draw } = await handed(name, page).script, root = one.parentElement
  if (style && !root.querySelector("style.handed")) {
    const look = document.createElement("style")
    look.className = "handed"
    look.textContent = style
    root.append(look)
  }
  return draw(one)
}
