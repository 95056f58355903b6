// What is chosen in the browser: the address says it, the page's scripts draw it, and the server
// reads it there before it answers whatever it is asked next.

// The server keeps this much of an address: see app/address.py.
const LONGEST_ADDRESS = 6000

// What the server hasn't been told, the scripts that draw it, the parts that only the server can
// draw anew, with the names of what changes them, and those that offer to draw what changes.
const ours = (page) => page.gpt2viz_chosen ??=
  { untold: new Map(), scripts: new EventTarget(), left: new Map(), offers: new Map() }

/** Whether an address has room for what is chosen. */
export function hasRoom(search, changes) {
  const asked = asking(search, changes)
  return [...asked].reduce((sum, pair) => sum + pair.join("").length, 0) <= LONGEST_ADDRESS
}

function asking(search, changes) {
  const asked = new URLSearchParams(search)
  for (const [name, value] of Object.entries(changes))
    if (value === null) asked.delete(name)
    else asked.set(name, value)
  return asked
}

/** Choose values of the address, texts by name, null for none; `drawn` are those that the server
 * has drawn where the address says nothing. */
export function chooseHere(changes, drawn = {}, page = globalThis) {
  const { untold: left, scripts } = ours(page), { search } = page.location
  const asked = new URLSearchParams(search)
  for (const [name, now] of Object.entries(changes)) {
    const said = asked.get(name), known = { said, drawn: drawn[name] ?? said }
    left.set(name, { ...left.get(name) ?? known, now })
  }
  const now = `${asking(search, changes)}`
  page.history.pushState({}, "", now ? `?${now}` : page.location.pathname)
  scripts.dispatchEvent(new CustomEvent("chosen", { detail: changes }))
}

/** The value that holds: what was chosen here, else what the server has `drawn`. */
export function holds(name, drawn, page = globalThis) {
  const { untold: left } = ours(page)
  return left.has(name) ? left.get(name).now : drawn
}

/** By name, what the server hasn't been told: what its address `said` (null for nothing), what it
 * has `drawn`, and what is chosen `now`. */
export const untold = (page = globalThis) => ours(page).untold

/** Call `draw` as something is chosen, for as long as a part of the page is there. */
export function whenChosen(part, draw, page = globalThis) {
  const { scripts } = ours(page)
  const answer = ({ detail }) => {
    if (part.isConnected) draw(detail)
    else scripts.removeEventListener("chosen", answer)
  }
  scripts.addEventListener("chosen", answer)
}

/** Have Streamlit tell the server what the address says, as the browser's Back does; whether there
 * was something to tell. */
export function tellServer(page = globalThis) {
  const { untold: left } = ours(page)
  if (!left.size) return false
  left.clear()
  page.dispatchEvent(new PopStateEvent("popstate"))
  return true
}

/** Have the scripts draw what the server has drawn, whose answer is on its way: the browser has
 * gone back or forward. */
export function forget(page = globalThis) {
  const { untold: left, scripts } = ours(page)
  const drawn = Object.fromEntries([...left].map(([name, one]) => [name, one.drawn]))
  left.clear()
  if (Object.keys(drawn).length)
    scripts.dispatchEvent(new CustomEvent("chosen", { detail: drawn }))
}

/** What sends to the server once it is told: Streamlit takes the address over in a moment. */
export const sender = (send, page = globalThis) => (...sent) => {
  if (tellServer(page)) setTimeout(send, 0, ...sent)
  else send(...sent)
}

/** Say that only the server can draw a part of the page anew as the named values change. */
export function leftToServer(part, names, page = globalThis) {
  ours(page).left.set(part, names)
}

/** Whether the scripts of the page can draw it anew as a value changes. */
export function drawnHere(name, page = globalThis) {
  const { left } = ours(page)
  for (const part of left.keys()) if (!part.isConnected) left.delete(part)
  return ![...left.values()].some((names) => names.includes(name))
}

/** Say which changes the scripts of the page draw by themselves: `offers` tells it of changes. */
export function offerHere(part, offers, page = globalThis) {
  ours(page).offers.set(part, offers)
}

/** Whether they draw all that these changes change, and the address has room for them. */
export function offeredHere(changes, page = globalThis) {
  const { offers } = ours(page)
  for (const part of offers.keys()) if (!part.isConnected) offers.delete(part)
  return hasRoom(page.location.search, changes)
    && Object.keys(changes).every((name) => drawnHere(name, page))
    && [...offers.values()].some((one) => one(changes))
}
