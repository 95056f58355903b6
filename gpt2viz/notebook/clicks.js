// Receives the clicks in all of a notebook's frames with one name, and sends them to Python.

/** Give a frame its own port, so that nothing else receives its clicks; see attention.js.
 * @param {any} model @param {any} frame */
export function hear(model, { contentWindow }) {
  const { port1, port2 } = new MessageChannel()
  port1.onmessage = ({ data }) => {
    model.set("clicked", data)
    model.save_changes()
  }
  contentWindow.postMessage("clicks", "*", [port2])
}

function render({ model }) {
  for (const frame of document.getElementsByName(model.get("frame"))) {
    hear(model, frame)
    frame.addEventListener("load", () => hear(model, frame))
  }
}

export default { render }
