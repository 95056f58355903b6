// Asks for the part of the page that it is in.

export default function ({ setTriggerValue }) {
  setTriggerValue("drawn", true)
}
