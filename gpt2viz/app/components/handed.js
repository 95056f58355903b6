// A script that one component of the page brings, and others of its name wait for. Python writes
// what is exported below it: see components/__init__.py.

/** Where a script is handed on by its name: a promise of it, and what keeps that promise. */
export function handed(name, page = globalThis) {
  if (!page[name]) {
    let give
    page[name] = { script: new Promise((done) => { give = done }), give }
  }
  return page[name]
}
