/** Text in the columns of a terminal. */

/** Exactly `width` columns: cut with an ellipsis, or filled. */
export function fit(text: string, width: number, align: 'left' | 'right'): string {
  const cut = cutTo(text, width)
  const fill = ' '.repeat(Math.max(0, width - columnsOf(cut)))
  return align === 'left' ? cut + fill : fill + cut
}

/** At most `width` columns, the last of them an ellipsis where something is left out. */
export function cutTo(text: string, width: number): string {
  if (columnsOf(text) <= width) return text
  const [kept = ''] = split(text, width - 1)
  return width > 0 ? `${kept}…` : ''
}

/** Lines of at most `width` columns, broken at a space where one is near the end; the last of `most` lines is cut. */
export function wrapped(text: string, width: number, most: number): string[] {
  const lines: string[] = []
  let rest = text
  while (lines.length + 1 < most && columnsOf(rest) > width) {
    const [whole = ''] = split(rest, width)
    const space = whole.lastIndexOf(' ')
    const line = space > whole.length / 2 ? whole.slice(0, space) : whole
    if (line === '') break
    lines.push(line)
    rest = rest.slice(line.length).trimStart()
  }
  return [...lines, cutTo(rest, width)]
}

/** What fits into so many columns, and the rest. */
function split(text: string, width: number): [string, string] {
  let used = 0
  let length = 0
  for (const char of text) {
    used += charWidth(char)
    if (used > width) break
    length += char.length
  }
  return [text.slice(0, length), text.slice(length)]
}

export function columnsOf(text: string): number {
  let sum = 0
  for (const char of text) sum += charWidth(char)
  return sum
}

/** From, to: East Asian wide characters. Pictures are known by their property. */
const wide: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2329, 0x232a],
  [0x2e80, 0x303e],
  [0x3041, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe10, 0xfe19],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x16fe0, 0x18dff],
  [0x1aff0, 0x1b2ff],
  [0x1f200, 0x1f2ff],
  [0x1f300, 0x1faff],
  [0x20000, 0x3fffd],
]
const pictureSelector = 0xfe0f

/**
 * Wide characters and pictures take two columns, marks above or below a character none. Where terminals differ (flags, pictures made of several),
 * this is the greater width: a line that is too short leaves a gap, one that is too long is cut by the terminal.
 */
function charWidth(char: string): number {
  const code = char.codePointAt(0) ?? 0
  if (code < 0x300) return 1
  if (code === pictureSelector) return 1
  if (/[\p{Mn}\p{Me}]/u.test(char)) return 0
  if (/\p{Emoji_Presentation}/u.test(char)) return 2
  return wide.some(([from, to]) => code >= from && code <= to) ? 2 : 1
}
