// The keyboard's way into popovers and along strips that scroll. A popover that opens takes the
// focus, Tab stays inside, Escape (Streamlit's own) goes back to its button. And the link to the
// open page is told to screen readers as the current one.

export default function () {
  const seen = new WeakSet()
  const reachable = (body) => [...body.querySelectorAll(
    "a[href], button:not([disabled]), input:not([disabled]), [tabindex='0']")]
      .filter((part) => part.offsetParent)
  const enter = (body) => {
    seen.add(body)
    body.tabIndex = -1
    const here = body.contains(document.activeElement)
    if (!here) (reachable(body)[0] ?? body).focus({ preventScroll: true })
    body.addEventListener("keydown", (event) => {
      if (event.key !== "Tab") return
      const parts = reachable(body)
      const end = event.shiftKey ? parts[0] : parts.at(-1)
      if (parts.length && document.activeElement !== end) return
      event.preventDefault()
      ;(event.shiftKey ? parts.at(-1) : parts[0])?.focus()
    })
  }
  const look = () => {
    for (const body of document.querySelectorAll("[data-testid='stPopoverBody']"))
      if (!seen.has(body)) enter(body)
    for (const link of document.querySelectorAll("[data-testid='stPageLink-NavLink']")) {
      const to = link.getAttribute("href")
      if (to.startsWith("?")) link.setAttribute("href", `./${to}`) // the first page, in a new tab
      const here = to.replace(/^\.\//, "").split("?")[0] === location.pathname.split("/").at(-1)
      if (here !== link.hasAttribute("aria-current"))
        here ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current")
    }
    // Many tokens scroll; where none can be chosen, Tab has to reach them all the same.
    for (const strip of document.querySelectorAll(".st-key-tokens"))
      if (strip.querySelector("button:not([disabled])")) strip.removeAttribute("tabindex")
      else strip.tabIndex = 0
  }
  look()
  const observer = new MutationObserver(look)
  observer.observe(document.body, { childList: true, subtree: true })
  return () => observer.disconnect()
}
