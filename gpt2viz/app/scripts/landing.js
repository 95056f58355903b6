// Scrolls to where a reader lands. The previous page is longer or shorter, and pictures are drawn
// late: if the target moves out of sight, it scrolls again, until the reader does something. A
// title in the upper half of the screen stays where it is. The keyboard focus follows, unless it is
// in the contents.

let visit = 0
export default function ({ data }) {
  if (data.visit === visit) return
  visit = data.visit
  if (!data.id) return
  const reader = new AbortController()
  const land = () => {
    const target = document.getElementById(data.id)
    if (!target) return
    const top = target.getBoundingClientRect().top
    if (top < 0 || top > innerHeight / 2) target.scrollIntoView()
    const holder = document.activeElement
    if (holder === target || holder?.closest(".st-key-chapter")) return
    target.tabIndex = -1
    target.style.outline = "none"
    target.focus({ preventScroll: true })
  }
  const moved = new ResizeObserver(land)
  const added = new MutationObserver(land)
  const page = document.querySelector("[data-testid='stMain']")
  moved.observe(page.querySelector("[data-testid='stMainBlockContainer']") ?? page)
  added.observe(page, { childList: true, subtree: true })
  reader.signal.onabort = () => [moved, added].forEach((observer) => observer.disconnect())
  for (const act of ["wheel", "touchstart", "pointerdown", "keydown"]) {
    addEventListener(act, () => reader.abort(), { capture: true, signal: reader.signal })
  }
  setTimeout(() => reader.abort(), 15000)
  land()
}
