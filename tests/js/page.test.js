import assert from "node:assert/strict"
import { test } from "node:test"

import {
  asks, isDark, leadsTo, mergePending, theme, trapFocus, withCurrentState,
} from "../../gpt2viz/app/scripts/page.js"

const now = withCurrentState, merged = mergePending
const PARTS = ["first", "middle", "last"]

test("Tab cycles within a popover, Shift+Tab backwards", () => {
  assert.equal(trapFocus(PARTS, "last", false), "first")
  assert.equal(trapFocus(PARTS, "first", true), "last")
  assert.equal(trapFocus(PARTS, "middle", false), undefined)
  assert.equal(trapFocus(PARTS, "first", false), undefined)
  assert.equal(trapFocus(PARTS, "last", true), undefined)
})

test("Tab stays in a popover with nothing to focus", () => {
  assert.equal(trapFocus([], "body", false), null)
  assert.equal(trapFocus(["one"], "one", true), "one")
})

test("a link is recognised by its path, whatever its query", () => {
  assert.ok(leadsTo("inside_head?layer=1", "/inside_head"))
  assert.ok(leadsTo("./inside_head", "/behind/a/proxy/inside_head"))
  assert.ok(leadsTo("?text=a", "/") && leadsTo("./?text=a", "/proxy/"))
  assert.ok(!leadsTo("inside_head", "/inside_head_2") && !leadsTo("inside_head", "/"))
})

test("a link gets the address's present state and keeps its own parameters", () => {
  assert.equal(now("predict?text=a&head=1", "?text=a&head=2"), "predict?head=2&text=a")
  assert.equal(now("predict?text=a&head=1&key=3", "?text=a"), "predict?text=a")
  assert.equal(now("glossary?term=head&head=1", "?head=2"), "glossary?head=2&term=head")
  assert.equal(now("./?head=1", "?head=2&text=a%20%26+b"), "./?head=2&text=a+%26+b")
  assert.equal(now("added?added=one&head=1", "?added=a&head=2"), "added?added=one&head=2")
  assert.equal(now("glossary?term=x", "?term=a&find_word=b&head=2"), "glossary?head=2&term=x")
})

test("a link that already has the present state isn't changed", () => {
  assert.equal(now("predict?text=a%20b&head=1", "?head=1&text=a+b"), "predict?text=a%20b&head=1")
  assert.equal(now("predict", ""), "predict")
})

const SINCE = new Map([
  ["head", { inAddress: null, drawn: "2", now: "5" }],
  ["zoom", { inAddress: "1,3,0,4", drawn: "1,3,0,4", now: null }],
])
const SEARCH = "?text=a&head=5"

test("a link to another page gets the choices made since it was drawn", () => {
  assert.equal(merged("head?text=a&head=2&zoom=1%2C3%2C0%2C4", SEARCH, SINCE), "head?text=a&head=5")
  assert.equal(merged("head?text=a", SEARCH, SINCE), "head?text=a&head=5")
})

test("a link keeps its own choices", () => {
  assert.equal(merged("head?text=a&head=3", SEARCH, SINCE), "head?text=a&head=3")
  assert.equal(merged("head?text=b&head=2", SEARCH, SINCE), "head?text=b&head=2")
  assert.equal(merged("head?text=a&model=b&head=2", SEARCH, SINCE), "head?text=a&model=b&head=2")
  assert.equal(merged("head?text=a&head=2", SEARCH, new Map()), "head?text=a&head=2")
})

test("a link without a part of the text stays without one", () => {
  const since = new Map([["zoom", { inAddress: "1,3,0,4", drawn: "1,3,0,4", now: "0,2,0,2" }]])
  assert.equal(merged("head?text=a", "?text=a&zoom=0,2,0,2", since), "head?text=a")
})

const part = (dataset = {}, page = false) => ({ dataset, matches: () => page })

test("a press may send a request, unless the part sends pending choices itself", () => {
  assert.ok(asks([part(), part(), {}]))
  assert.ok(!asks([part(), part({ here: "" }), part(), {}]))
  assert.ok(!asks([part(), part({}, true), {}]))
})

test("a background is dark if its mean channel is below the middle", () => {
  assert.ok(isDark([18, 20, 28]) && isDark([0, 0, 0]) && isDark([127, 128, 128]))
  assert.ok(!isDark([255, 255, 255]) && !isDark([128, 128, 128]))
})

test("the theme is sent only if it changed", () => {
  const sent = []
  const pen = { fillRect() {}, getImageData: () => ({ data: [18, 20, 28, 255] }) }
  globalThis.getComputedStyle = () => ({ getPropertyValue: () => "#12141c" })
  const style = {}, documentElement = { style }
  globalThis.document = { documentElement, createElement: () => ({ getContext: () => pen }) }
  const send = (...what) => sent.push(what)
  for (const dark of [true, false])
    theme.default({ data: { dark, themes: {} }, parentElement: {}, setTriggerValue: send })
  assert.deepEqual([sent, style.colorScheme], [[["changed", true]], "dark"])
})

test("a received theme is stored, and the page reloaded", () => {
  const stored = {}
  let loaded = 0
  globalThis.localStorage = { setItem: (name, value) => { stored[name] = value } }
  globalThis.location = { reload: () => { loaded += 1 } }
  const themes = { "stActiveTheme-/-v2": '"Dark"', "stActiveTheme-/shapes-v2": '"Dark"' }
  theme.default({ data: { dark: false, themes }, parentElement: {}, setTriggerValue: assert.fail })
  assert.deepEqual([stored, loaded], [themes, 1])
})
