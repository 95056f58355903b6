// `make lint` runs this from the top of the clone, over the app's scripts, their tests and styles.
import css from "@eslint/css"
import js from "@eslint/js"
import globals from "globals"

export default [
  {
    files: ["**/*.js"],
    ...js.configs.recommended,
    rules: {
      ...js.configs.recommended.rules,
      "eqeqeq": "error",
      "max-len": ["error", { code: 100 }],
      "max-lines-per-function": ["error", 50],
      "no-shadow": "error",
      "no-unused-expressions": "error",
      "no-var": "error",
      "prefer-const": "error",
      "quotes": ["error", "double", { avoidEscape: true }],
      "semi": ["error", "never"],
    },
  },
  { files: ["gpt2viz/**/*.js"], languageOptions: { globals: globals.browser } },
  { files: ["gpt2viz/pictures/**/*.js"], languageOptions: { sourceType: "script" } },
  { files: ["tests/js/**/*.js"], languageOptions: { globals: globals.node } },
  {
    files: ["**/*.css"],
    plugins: { css },
    language: "css/css",
    rules: {
      ...css.configs.recommended.rules,
      "css/no-important": "off", // Streamlit's own rules are meant to be overruled
      "css/no-invalid-properties": ["error", { allowUnknownVariables: true }], // --st-… are its own
      "css/use-baseline": ["error", {
        available: "newly",
        allowPropertyValues: { "font-family": ["ui-monospace"] }, // others come after it
      }],
    },
  },
]
