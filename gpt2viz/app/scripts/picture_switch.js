// The switch between a matrix and lines: the page's scripts draw either.

import { chooseHere, holds, offeredHere, sender, whenChosen } from "./chosen.js"
import { make } from "./make.js"

export const html = '<div class="switch" role="radiogroup" aria-label="Picture"></div>'

const KEYS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }

// The choice that a key leads to from one of several; undefined for a key that leads nowhere.
export const turned = (names, name, key) =>
  key in KEYS ? names[(names.indexOf(name) + KEYS[key] + names.length) % names.length] : undefined

function choose(view, name) {
  if (name === view.chosen) return
  const { drawn, send } = view, changes = { picture: name }
  if (offeredHere(changes)) chooseHere(changes, { picture: drawn })
  else send("picture", name)
}

function press(view, name) {
  view.chosen = name
  for (const button of view.children) {
    const on = button.value === name
    button.setAttribute("aria-checked", on)
    button.tabIndex = on ? 0 : -1
  }
}

function walk(view, event) {
  const name = turned([...view.children].map(({ value }) => value), view.chosen, event.key)
  if (!name) return
  event.preventDefault()
  choose(view, name)
  view.querySelector(`[value=${view.chosen}]`).focus()
}

export default function ({ data, parentElement, setTriggerValue }) {
  const view = parentElement.querySelector(".switch"), known = view.children.length
  view.dataset.here = ""
  Object.assign(view, { drawn: data.chosen, send: sender(setTriggerValue) })
  if (!known) {
    for (const [name, label] of Object.entries(data.names)) {
      const button = make("button", view, label)
      Object.assign(button, { type: "button", value: name, onclick: () => choose(view, name) })
      button.setAttribute("role", "radio")
    }
    view.onkeydown = (event) => walk(view, event)
    whenChosen(view, ({ picture }) => picture && press(view, picture))
  }
  for (const button of view.children) button.disabled = data.disabled
  press(view, holds("picture", data.chosen))
}
