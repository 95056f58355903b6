// Bars that always sum to 1, in whole hundredths so that the numbers beside them do too. A bar that
// the reader has set stays; the others share the rest.

import { make } from "./make.js"

export const html = '<div class="guess" role="group"></div>'

const WHOLE = 100

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0)

// Whole numbers that sum to `total`, in the proportions of `parts`, or equal if all are 0.
export function shared(total, parts) {
  const all = sum(parts)
  const exact = parts.map((part) => total * (all ? part / all : 1 / parts.length))
  const whole = exact.map((share) => Math.floor(share + 1e-9))
  const byRest = exact.map((share, n) => [whole[n] - share, n]).sort(([a, n], [b, m]) =>
    a - b || n - m)
  byRest.slice(0, total - sum(whole)).forEach(([, n]) => { whole[n] += 1 })
  return whole
}

// The bars after bar `n` is moved to `value`. Bars `set` before keep their values as long as the
// others can make room; then they change too.
export function moved(bars, set, n, value) {
  const others = bars.map((_, m) => m).filter((m) => m !== n)
  const fixed = others.filter((m) => set.has(m)), free = others.filter((m) => !set.has(m))
  const left = WHOLE - value, room = left - sum(fixed.map((m) => bars[m]))
  const result = bars.map((bar, m) => m === n ? value : free.includes(m) ? 0 : bar)
  const [adapting, total] = free.length && room >= 0 ? [free, room] : [fixed, left]
  const parts = adapting.map((m) => adapting === free ? 0 : bars[m])
  shared(total, parts).forEach((share, m) => { result[adapting[m]] = share })
  return result
}

const written = (hundredths) => (hundredths / WHOLE).toFixed(2)

function ask(root, { names }, send) {
  let bars = shared(WHOLE, names.map(() => 0))
  const set = new Set(), rows = names.map((name) => {
    const row = make("label", root, "", "row")
    make("span", row, name, "name")
    const field = make("input", row)
    Object.assign(field, { type: "range", min: "0", max: String(WHOLE), step: "1" })
    const number = make("span", row, "", "number")
    number.setAttribute("aria-hidden", "true") // the field announces it
    return { field, number }
  })
  const show = () => rows.forEach(({ field, number }, n) => {
    field.value = String(bars[n])
    field.setAttribute("aria-valuetext", written(bars[n]))
    field.style.setProperty("--share", String(bars[n] / WHOLE))
    number.textContent = written(bars[n])
  })
  rows.forEach(({ field }, n) => {
    field.oninput = () => {
      bars = moved(bars, set, n, Number(field.value))
      set.add(n)
      submit.disabled = false
      show()
    }
  })
  const buttons = make("div", root, "", "buttons")
  const submit = make("button", buttons, "This is what I expect", "first")
  Object.assign(submit, { disabled: true, onclick: () => send("expected", bars) })
  make("button", buttons, "Just show me").onclick = () => send("skipped", true)
  show()
}

function compare(root, { names, guess, real }) {
  const table = make("table", root), head = make("tr", make("thead", table))
  make("td", head)
  for (const name of ["you expected", "it is"]) make("th", head, name).scope = "col"
  const body = make("tbody", table)
  names.forEach((name, n) => {
    const row = make("tr", body)
    make("th", row, name).scope = "row"
    for (const [share, kind] of [[guess[n] / WHOLE, "guessed"], [real[n], "real"]]) {
      const cell = make("td", row)
      make("span", cell, share.toFixed(2), "number")
      make("span", make("span", cell, "", "track"), "", kind).style.width = `${100 * share}%`
    }
  })
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".guess"), made = JSON.stringify(data)
  if (root.made === made) return // keep what was dragged
  root.made = made
  root.replaceChildren()
  root.setAttribute("aria-label", data.title)
  if (data.real) compare(root, data)
  else ask(root, data, setTriggerValue)
}
