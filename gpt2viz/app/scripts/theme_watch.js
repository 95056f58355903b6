// Tells when the page turns dark or light: this runs again when the theme changes, the page's
// script doesn't. And lets it turn: Streamlit reads the theme from the browser's storage when the
// page is loaded.

// Whether a background is dark: its red, green and blue, 0 to 255.
export const isDark = ([red, green, blue]) => red + green + blue < 3 * 128

export default function ({ data, parentElement, setTriggerValue }) {
  const wanted = Object.entries(data.wanted)
  if (wanted.length) {
    for (const [name, theme] of wanted) localStorage.setItem(name, theme)
    location.reload()
    return
  }
  const style = getComputedStyle(parentElement.host ?? parentElement)
  const probe = document.createElement("canvas").getContext("2d")
  probe.fillStyle = style.getPropertyValue("--st-background-color")
  probe.fillRect(0, 0, 1, 1)
  const dark = isDark(probe.getImageData(0, 0, 1, 1).data)
  if (dark !== data.dark) setTriggerValue("changed", dark)
}
