// Beside a notebook's frames of one name: receives what is clicked in them, and sends it to Python.

/** A port of its own for a frame, so that nobody else hears it; see attention.js.
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
