// The keyboard's way into popovers and along what scrolls. A popover that opens takes the
// focus, Tab stays inside, Escape (Streamlit's own) goes back to its button. And the link to the
// open page is told to screen readers as the current one.

const REACHABLE = "a[href], button:not([disabled]), input:not([disabled]), [tabindex='0']"

const reachable = (body) =>
  [...body.querySelectorAll(REACHABLE)].filter((part) => part.offsetParent)

// Where Tab, or Shift and Tab, leads from the `active` part of a popover: at an end to the other
// end, or nowhere where there is no part; undefined where the browser knows itself.
export function round(parts, active, back) {
  const [end, other] = back ? [parts[0], parts.at(-1)] : [parts.at(-1), parts[0]]
  if (parts.length && active !== end) return undefined
  return other ?? null
}

// Whether a link of the menu leads to the page at a path of the address.
export const leadsTo = (link, pathname) =>
  link.replace(/^\.\//, "").split("?")[0] === pathname.split("/").at(-1)

function enter(body) {
  body.tabIndex = -1
  const inside = body.contains(document.activeElement)
  if (!inside) (reachable(body)[0] ?? body).focus({ preventScroll: true })
  body.addEventListener("keydown", (event) => {
    if (event.key !== "Tab") return
    const next = round(reachable(body), document.activeElement, event.shiftKey)
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

export default function () {
  const seen = new WeakSet()
  const look = () => {
    for (const body of document.querySelectorAll("[data-testid='stPopoverBody']"))
      if (!seen.has(body)) {
        seen.add(body)
        enter(body)
      }
    document.querySelectorAll("[data-testid='stPageLink-NavLink']").forEach(mark)
    // Many tokens scroll; where none can be chosen, Tab has to reach them all the same.
    for (const strip of document.querySelectorAll(".st-key-tokens [role='radiogroup']"))
      if (strip.querySelector("[role='radio']:not([disabled])")) strip.removeAttribute("tabindex")
      else strip.tabIndex = 0
    // So does a formula that is wider than its column.
    for (const formula of document.querySelectorAll(".katex-display"))
      if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0
      else formula.removeAttribute("tabindex")
  }
  look()
  addEventListener("resize", look)
  const observer = new MutationObserver(look)
  observer.observe(document.body, { childList: true, subtree: true })
  return () => {
    observer.disconnect()
    removeEventListener("resize", look)
  }
}
