// Keyboard access to popovers and to parts that scroll: a popover that opens takes the focus, Tab
// stays inside, Escape (Streamlit's own) returns to its button. The menu's links: the open page's
// is marked as current for screen readers, and each carries all choices. And choices made in the
// browser are sent to the server before its next request.

import { dropPending, pending, sendPending } from "./state.js"

const REACHABLE = "a[href], button:not([disabled]), input:not([disabled]), [tabindex='0']"

// Elements under the pointer that are open, so that a tip would be redundant.
const OPEN = ".st-key-menu a[aria-current]:hover, button[aria-expanded='true']:hover"

const WIDE = ".katex-display, div:has(> table)"

const reachable = (body) =>
  [...body.querySelectorAll(REACHABLE)].filter((part) => part.offsetParent)

// Where Tab, or Shift and Tab, leads from the `active` part of a popover: from an end to the other
// end, or nowhere without parts; undefined if the browser's own order applies.
export function trapFocus(parts, active, back) {
  const [end, other] = back ? [parts[0], parts.at(-1)] : [parts.at(-1), parts[0]]
  if (parts.length && active !== end) return undefined
  return other ?? null
}

// Whether a link of the menu leads to the page at a path of the address.
export const leadsTo = (link, pathname) =>
  link.replace(/^\.\//, "").split("?")[0] === pathname.split("/").at(-1)

// Parameters that are a link's own, whatever is chosen.
const OWN = ["added", "find_word", "term"]

// A link's target with the address's current state: a fragment may have rerun since the link was
// drawn.
export function withCurrentState(link, search) {
  const [path, carried] = link.split("?"), now = new URLSearchParams(search)
  const own = new URLSearchParams(carried)
  for (const name of OWN) {
    now.delete(name)
    if (own.has(name)) now.set(name, own.get(name))
  }
  own.sort()
  now.sort()
  return `${own}` === `${now}` ? link : `${path}?${now}`
}

// Another link's target with the choices made in the browser since it was drawn: parameters that
// equal the state drawn then get the current values, others are the link's own. So are all
// parameters of a link to another text or model.
export function mergePending(link, search, since) {
  const [path, carried] = link.split("?"), own = new URLSearchParams(carried)
  const now = new URLSearchParams(search)
  if (["text", "model"].some((name) => own.get(name) !== now.get(name))) return link
  let changed = false
  for (const [name, { inAddress, drawn, now: chosen }] of since) {
    const value = own.get(name)
    if (value !== drawn && (value !== null || inAddress !== null)) continue
    changed = true
    if (chosen === null) own.delete(name)
    else own.set(name, chosen)
  }
  return changed ? `${path}?${own}` : link
}

const MENU = ".st-key-menu .stPageLink a:not(.st-key-tools *)", PAGE = ".stPageLink a"

// Streamlit follows a page link as it was drawn, but it also follows the browser's history, which
// this changes instead.
function follow(event) {
  const link = event.target.closest?.(`${PAGE}, a[href*="glossary?"]`)
  if (!link) return
  const drawn = link.getAttribute("href"), leadsOn = link.matches(`${MENU}, a[href*="glossary?"]`)
  const to = leadsOn ? withCurrentState(drawn, location.search)
    : mergePending(drawn, location.search, pending())
  // Streamlit leaves the address unchanged if a link leads to the open page.
  if (to === drawn && !(link.matches(PAGE) && leadsTo(drawn, location.pathname))) return
  link.setAttribute("href", to)
  setTimeout(() => link.setAttribute("href", drawn))
  const aside = event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey
  if (aside || !link.matches(PAGE)) return
  event.preventDefault()
  event.stopPropagation()
  history.pushState(null, "", link.href)
  dispatchEvent(new PopStateEvent("popstate"))
}

// Whether a pressed or focused element may send the server a request. Links carry what they need,
// and scripts that draw choices here send pending ones themselves. `path` goes from the innermost
// element outwards, through the roots of components too.
export const asks = (path) =>
  !path.some((part) => part.matches && ("here" in part.dataset || part.matches(PAGE)))

const ask = (event) => asks(event.composedPath()) && sendPending()

function enter(body) {
  body.tabIndex = -1
  const inside = body.contains(document.activeElement)
  if (!inside) (reachable(body)[0] ?? body).focus({ preventScroll: true })
  body.addEventListener("keydown", (event) => {
    if (event.key !== "Tab") return
    const next = trapFocus(reachable(body), document.activeElement, event.shiftKey)
    if (next === undefined) return
    event.preventDefault()
    next?.focus()
  })
}

function mark(link) {
  const to = link.getAttribute("href")
  if (to.startsWith("?")) link.setAttribute("href", `./${to}`) // the first page, in a new tab
  const isOpen = leadsTo(to, location.pathname)
  if (isOpen === link.hasAttribute("aria-current")) return
  if (isOpen) link.setAttribute("aria-current", "page")
  else link.removeAttribute("aria-current")
}

// Set the page's landmarks for screen readers: Streamlit marks its empty top as a banner.
function landmarks() {
  const menu = document.querySelector(".st-key-menu")
  menu?.setAttribute("role", "navigation")
  menu?.setAttribute("aria-label", "Pages")
  document.querySelector("header[data-testid='stHeader']")?.setAttribute("role", "none")
}

// For theme.css, which would need `:has` on the whole body. Escape closes a popover and focuses its
// button, whose tip stays hidden until another key is pressed or the pointer moves.
let dismissed = false

function noteTips() {
  document.body.classList.toggle("without-tips", dismissed || document.querySelector(OPEN) !== null)
}

function noteEscape(event) {
  if (dismissed === (event.key === "Escape")) return // most moves of the pointer change nothing
  dismissed = !dismissed
  noteTips()
}

function noteBody(body) {
  const key = [...body.querySelector("[class*='st-key-'][class*='_body']")?.classList ?? []]
    .find((name) => /^st-key-(table|words_panel|numbers|save|share)_body$/.test(name))
  if (key) body.dataset.holds = key.slice("st-key-".length, -"_body".length)
}

function watchKeyboard() {
  const seen = new WeakSet()
  const look = () => {
    for (const body of document.querySelectorAll("[data-testid='stPopoverBody']")) {
      noteBody(body)
      if (!seen.has(body)) {
        seen.add(body)
        enter(body)
      }
    }
    noteTips()
    document.querySelectorAll("[data-testid='stPageLink-NavLink']").forEach(mark)
    landmarks()
    // A formula or table that is wider than its column scrolls: Tab has to reach it.
    for (const wide of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(WIDE)))
      if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0
      else wide.removeAttribute("tabindex")
  }
  look()
  const left = new AbortController(), { signal } = left, first = { capture: true, signal }
  addEventListener("resize", look, { signal })
  addEventListener("pointerover", noteTips, { signal })
  addEventListener("popstate", () => dropPending(), { signal })
  for (const kind of ["keydown", "pointermove"]) document.addEventListener(kind, noteEscape, first)
  for (const kind of ["click", "auxclick"]) document.addEventListener(kind, follow, first)
  for (const kind of ["pointerdown", "focusin"]) document.addEventListener(kind, ask, first)
  let frame = 0 // once for all that changes before the next one: widths make the browser lay out
  const observer = new MutationObserver(() => {
    frame ||= requestAnimationFrame(() => { frame = 0; look() })
  })
  observer.observe(document.body, { childList: true, subtree: true, attributeFilter: ["href"] })
  return () => {
    left.abort()
    observer.disconnect()
    cancelAnimationFrame(frame)
  }
}

/** Whether a background is dark: its red, green and blue, 0 to 255.
 * @param {Iterable<number>} color */
export const isDark = ([red, green, blue]) => red + green + blue < 3 * 128

// Report when the page turns dark or light: this reruns when the theme changes, the page's script
// doesn't. And change the theme: Streamlit reads it from the browser's storage as the page loads.
function watchTheme({ data, parentElement, setTriggerValue }) {
  const themes = Object.entries(data.themes)
  if (themes.length) {
    for (const [name, theme] of themes) localStorage.setItem(name, theme)
    location.reload()
    return
  }
  const style = getComputedStyle(parentElement.host ?? parentElement)
  const probe = document.createElement("canvas").getContext("2d")
  probe.fillStyle = style.getPropertyValue("--st-background-color")
  probe.fillRect(0, 0, 1, 1)
  const dark = isDark(probe.getImageData(0, 0, 1, 1).data)
  document.documentElement.style.colorScheme = dark ? "dark" : "light" // of dialogs too
  if (dark !== data.dark) setTriggerValue("changed", dark)
}

// Rerun the fragment that this component is in.
const askAgain = ({ setTriggerValue }) => setTriggerValue("drawn", true)

export const keyboard = { default: watchKeyboard }
export const theme = { default: watchTheme }
export const fragment = { default: askAgain }
