/** Texts of options that several commands share. */

export const onText =
  'the store: a URL, or a name in holdfast.json (default: $HOLDFAST_URL, else its default, else local:)'
export const verboseText = 'say which store it is, and which file says so'
