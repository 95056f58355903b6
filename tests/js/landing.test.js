import assert from "node:assert/strict"
import { test } from "node:test"

// What the component does with a target at `top` in a window 800 pixels high.
async function landed(top, { visits = [1], holder = null, act = false } = {}) {
  const done = [], watched = [], listeners = {}
  const target = { style: {}, getBoundingClientRect: () => ({ top }),
    scrollIntoView: () => done.push("scrolled"), focus: () => done.push("focused") }
  class Observer {
    constructor(then) { this.then = then; watched.push(this) }
    observe() {}
    disconnect() { watched.splice(watched.indexOf(this), 1) }
  }
  Object.assign(globalThis, {
    innerHeight: 800, ResizeObserver: Observer, MutationObserver: Observer, setTimeout() {},
    addEventListener: (name, then) => { listeners[name] = then },
    document: { getElementById: () => target, querySelector: () => ({ querySelector: () => null }),
      get activeElement() { return holder ?? (done.includes("focused") ? target : null) } },
  })
  const { default: land } = await import(
    `../../gpt2viz/app/scripts/landing.js?${Math.random()}`)
  for (const visit of visits) land({ data: { id: "example", visit } })
  if (act) listeners.wheel()
  return { done, watched: watched.length }
}

test("a target out of sight or low in the window is scrolled to and focused", async () => {
  for (const top of [-1, 401, 5000]) {
    const { done } = await landed(top)
    assert.deepEqual(done, ["scrolled", "focused"])
  }
})

test("a target in the upper half isn't scrolled to", async () => {
  for (const top of [0, 400]) assert.deepEqual((await landed(top)).done, ["focused"])
})

test("focus in the table of contents isn't moved", async () => {
  const { done } = await landed(0, { holder: { closest: () => true } })
  assert.deepEqual(done, [])
})

test("a visit scrolls once, and corrects for layout shifts until the reader acts", async () => {
  const { done, watched } = await landed(500, { visits: [1, 1] })
  assert.deepEqual([done, watched], [["scrolled", "focused"], 2])
  assert.equal((await landed(500, { act: true })).watched, 0)
})
