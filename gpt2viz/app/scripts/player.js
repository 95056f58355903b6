// Frames to play and step through. A frame has marks, identified by their keys, each at a position;
// CSS moves them from one frame's position to the next, unless reduced motion is preferred.

import { make } from "./make.js"

export const html = '<div class="player" role="group"></div>'

const REST = 400  // ms from the last step to the message
const PACE = 1800

/** The state of `count` frames after the server's answer `at`: it shows the browser's own frame,
 * unless the address has changed; and of the frames that were `sent`, it keeps those not answered
 * yet. A busy server answers one after the other. */
export function afterAnswer(known, { at, count }) {
  if (known?.count !== count) return { at, count, answered: at, sent: [] }
  const own = at === known.answered || known.sent.includes(at)
  return { at: own ? known.at : at, count, answered: at,
    sent: known.sent.slice(known.sent.indexOf(at) + 1) }
}

// The frame `by` steps further, or the last one on the way.
export const step = (at, by, count) => Math.min(Math.max(at + by, 0), count - 1)

// The marks that appear and disappear between the current `keys` and a frame's marks.
export function changes(keys, marks) {
  const next = marks.map(({ key }) => key)
  return {
    added: next.filter((key) => !keys.includes(key)),
    removed: keys.filter((key) => !next.includes(key)),
  }
}

// A mark's style. A line is 1.6 rem.
export function look({ box: [x, y, wide, tall], fill, ink }) {
  return { left: `${100 * x}%`, top: `${1.6 * y}rem`, width: `${100 * wide}%`,
    height: `${1.6 * tall}rem`, background: fill, color: ink, opacity: "1" }
}

function paint(view) {
  const { data, at, parts, stage } = view, { caption, marks } = data.frames[at]
  const { added, removed } = changes([...parts.keys()], marks)
  for (const key of removed) {
    const mark = parts.get(key)
    parts.delete(key)
    mark.style.opacity = "0"
    setTimeout(() => mark.remove(), 700)
  }
  for (const mark of marks) {
    if (added.includes(mark.key)) parts.set(mark.key, make("div", stage))
    const part = parts.get(mark.key)
    part.className = `${mark.fill ? "block" : "word"}${mark.left ? " left" : ""}`
    part.textContent = mark.text
    Object.assign(part.style, look(mark))
  }
  stage.style.height = `${1.6 * data.lines}rem`
  if (view.caption.textContent !== caption) view.caption.textContent = caption
  view.where.textContent = `${at + 1} of ${data.frames.length}`
  view.back.setAttribute("aria-disabled", String(at === 0))
  view.next.setAttribute("aria-disabled", String(at === data.frames.length - 1))
}

function report(view) {
  clearTimeout(view.timer)
  if (view.at === view.data.at) return
  view.sent.push(view.at)
  view.send("at", view.at)
}

function go(view, at) {
  view.at = at
  paint(view)
  clearTimeout(view.timer)
  if (!view.interval) view.timer = setTimeout(report, REST, view)
}

function play(view, on) {
  clearInterval(view.interval)
  view.interval = 0
  const last = view.data.frames.length - 1
  if (on) {
    if (view.at === last) go(view, 0)
    view.interval = setInterval(() => {
      if (!view.root.isConnected) return clearInterval(view.interval) // the reader has left
      go(view, step(view.at, 1, last + 1))
      if (view.at === last) play(view, false)
    }, PACE)
  } else report(view)
  view.play.textContent = on ? "❚❚ Pause" : "▶ Play"
}

function walk(view, by) {
  if (view.interval) play(view, false)
  go(view, step(view.at, by, view.data.frames.length))
}

const button = (bar, text, onclick) => Object.assign(make("button", bar, text), { onclick })

function build(root) {
  const view = { root, parts: new Map(), interval: 0 }, bar = make("div", root, "", "bar")
  view.back = button(bar, "◀ Back", () => walk(view, -1))
  view.play = button(bar, "▶ Play", () => play(view, !view.interval))
  view.play.className = "play"
  view.next = button(bar, "Step ▶", () => walk(view, 1))
  view.where = make("span", bar, "", "where")
  view.caption = make("p", root, "", "caption")
  view.caption.setAttribute("role", "status")
  view.stage = make("div", root, "", "stage")
  view.stage.setAttribute("aria-hidden", "true")
  return view
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".player")
  const view = root.view ??= build(root), state = { at: data.at, count: data.frames.length }
  Object.assign(view, afterAnswer(view, state), { data, send: setTriggerValue })
  root.setAttribute("aria-label", data.alt)
  paint(view)
}
