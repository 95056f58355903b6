// Colours as numbers, and what can be read on them.

// "#rrggbb" as red, green and blue.
export const rgb = (hex) => [1, 3, 5].map((n) => parseInt(hex.slice(n, n + 2), 16))

// Black or white, as has the larger contrast with a colour (WCAG 2.2, relative luminance): 4.5:1 at
// least, which anything softer hasn't on some colours.
export function ink(color) {
  const [r, g, b] = color.map((c) =>
    c <= 10 ? c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4)
  return .2126 * r + .7152 * g + .0722 * b > .179 ? "#000000" : "#ffffff"
}
