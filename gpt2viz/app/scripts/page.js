// The keyboard's way into popovers and along what scrolls. A popover that opens takes the
// focus, Tab stays inside, Escape (Streamlit's own) goes back to its button. And the menu's links:
// that to the open page is told to screen readers as the current one, and each leads on with all
// that is chosen. And the server is told what was chosen in the browser before anything else is
// asked of it.

import { dropPending, pending, sendPending } from "./state.js"

const REACHABLE = "a[href], button:not([disabled]), input:not([disabled]), [tabindex='0']"

// What is open and says itself what it is, under the pointer.
const TELLS = ".st-key-menu a[aria-current]:hover, button[aria-expanded='true']:hover"

const WIDE = ".katex-display, div:has(> table)"

const reachable = (body) =>
  [...body.querySelectorAll(REACHABLE)].filter((part) => part.offsetParent)

// Where Tab, or Shift and Tab, leads from the `active` part of a popover: at an end to the other
// end, or nowhere where there is no part; undefined where the browser knows itself.
export function trapFocus(parts, active, back) {
  const [end, other] = back ? [parts[0], parts.at(-1)] : [parts.at(-1), parts[0]]
  if (parts.length && active !== end) return undefined
  return other ?? null
}

// Whether a link of the menu leads to the page at a path of the address.
export const leadsTo = (link, pathname) =>
  link.replace(/^\.\//, "").split("?")[0] === pathname.split("/").at(-1)

// What a link carries of its own, whatever else is chosen.
const OWN = ["added", "find_word", "term"]

// Where a link leads with what the address says now: a part of the page may have been drawn alone
// since the link was.
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

// Where another link leads with what was chosen in the browser since it was drawn: what it carries
// as it was drawn then is carried as it is now, and what else it carries is its own. So is all that
// a link to another text or model carries.
export function mergePending(link, search, since) {
  const [path, carried] = link.split("?"), own = new URLSearchParams(carried)
  const now = new URLSearchParams(search)
  if (["text", "model"].some((name) => own.get(name) !== now.get(name))) return link
  let changed = false
  for (const [name, { said, drawn, now: chosen }] of since) {
    const value = own.get(name)
    if (value !== drawn && (value !== null || said !== null)) continue
    changed = true
    if (chosen === null) own.delete(name)
    else own.set(name, chosen)
  }
  return changed ? `${path}?${own}` : link
}

const MENU = ".st-key-menu .stPageLink a:not(.st-key-tools *)", PAGE = ".stPageLink a"

// A link to a page is Streamlit's, which knows it as it was drawn; where the browser's history
// leads, it follows.
function follow(event) {
  const link = event.target.closest?.(`${PAGE}, a[href*="glossary?"]`)
  if (!link) return
  const drawn = link.getAttribute("href"), leadsOn = link.matches(`${MENU}, a[href*="glossary?"]`)
  const to = leadsOn ? withCurrentState(drawn, location.search)
    : mergePending(drawn, location.search, pending())
  // Streamlit leaves the address as it was where a link leads to the page that is open.
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

// Whether what is pressed, or reached by keys, may ask the server for something. Links carry what
// they need, and scripts that draw here what is chosen say themselves what is to be told. `path`
// leads from the innermost part outwards, through the roots of components too.
export const asks = (path) =>
  !path.some((part) => part.matches && ("here" in part.dataset || part.matches(PAGE)))

const ask = (event) => asks(event.composedPath()) && sendPending()
const back = () => dropPending()

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
  const here = leadsTo(to, location.pathname)
  if (here === link.hasAttribute("aria-current")) return
  if (here) link.setAttribute("aria-current", "page")
  else link.removeAttribute("aria-current")
}

// What a page's parts are to those who hear it: Streamlit calls its empty top a banner.
function landmarks() {
  const menu = document.querySelector(".st-key-menu")
  menu?.setAttribute("role", "navigation")
  menu?.setAttribute("aria-label", "Pages")
  document.querySelector("header[data-testid='stHeader']")?.setAttribute("role", "none")
}

// For theme.css, which would need `:has` on the whole body.
function noteTips() {
  document.body.classList.toggle("tells", document.querySelector(TELLS) !== null)
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
    // A formula, or what has a table, that is wider than its column scrolls: Tab has to reach it.
    for (const wide of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(WIDE)))
      if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0
      else wide.removeAttribute("tabindex")
  }
  look()
  addEventListener("resize", look)
  addEventListener("pointerover", noteTips)
  for (const kind of ["click", "auxclick"]) document.addEventListener(kind, follow, true)
  for (const kind of ["pointerdown", "focusin"]) document.addEventListener(kind, ask, true)
  addEventListener("popstate", back)
  const observer = new MutationObserver(look)
  observer.observe(document.body, { childList: true, subtree: true })
  return () => {
    observer.disconnect()
    removeEventListener("resize", look)
    removeEventListener("pointerover", noteTips)
    removeEventListener("popstate", back)
    for (const kind of ["click", "auxclick"]) document.removeEventListener(kind, follow, true)
    for (const kind of ["pointerdown", "focusin"]) document.removeEventListener(kind, ask, true)
  }
}

/** Whether a background is dark: its red, green and blue, 0 to 255.
 * @param {Iterable<number>} color */
export const isDark = ([red, green, blue]) => red + green + blue < 3 * 128

// Tells when the page turns dark or light: this runs again when the theme changes, the page's
// script doesn't. And lets it turn: Streamlit reads the theme from the browser's storage when the
// page is loaded.
function watchTheme({ data, parentElement, setTriggerValue }) {
  const wanted = Object.entries(data.wanted)
  if (wanted.length) {
    for (const [name, theme] of wanted) localStorage.setItem(name, theme)
    location.reload()
    return
  }
  const style = getComputedStyle(parentElement.host ?? parentElement)
  const probe = document.createElement("canvas").getContext("2d")
  probe.fillStyle = style.getPropertyValue("--st-background-color")
  probe.fillRect(0, 0, 1, 1)
  const dark = isDark(probe.getImageData(0, 0, 1, 1).data)
  if (dark !== data.dark) setTriggerValue("changed", dark)
}

// Asks for the part of the page that it is in.
const askAgain = ({ setTriggerValue }) => setTriggerValue("drawn", true)

export const keyboard = { default: watchKeyboard }
export const theme = { default: watchTheme }
export const fragment = { default: askAgain }
