// Which part of the text is shown, and the way back. It is drawn anew as a part is chosen here.

import { chooseHere, drawnHere, holds, sender, whenChosen } from "./chosen.js"
import { inWords, parsed, spelled } from "./part.js"

export const html =
  '<div class="part" hidden><span></span><button>Show the whole text</button></div>'

function show(root, chosen) {
  const { lead, of, end } = root.data, part = parsed(chosen, end)
  root.hidden = !part
  root.room?.toggleAttribute("data-shown", Boolean(part))
  const [said] = root.children, bold = document.createElement("b")
  bold.textContent = lead
  said.replaceChildren(bold, part ? `: ${inWords(part)} ${of}` : "")
}

function back(root) {
  if (root.data.here && drawnHere("zoom")) chooseHere({ zoom: null })
  else root.send("whole", true)
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".part"), known = root.data
  root.data = data
  root.send = sender(setTriggerValue)
  if (!known) {
    root.dataset.here = ""
    root.room = parentElement.getRootNode().host?.closest(".st-key-part_note")
    root.children[1].onclick = () => back(root)
    whenChosen(root, (changes) => "zoom" in changes && show(root, changes.zoom))
  }
  show(root, holds("zoom", spelled(data.part)))
}
