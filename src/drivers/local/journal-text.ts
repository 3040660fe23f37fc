/**
 * The text of the journal: a JSON array on each line, whose last element is a checksum of what stands before it:
 * ```
 *   ["r","name","attempt","8d2e01f7"]
 * ```
 * Versions without checksums skip that element, and what they wrote is read, too: their header says so.
 *
 * A file comes into its place as a whole, and then grows by whole lines. Only its last line can be cut off, when its writer was killed or the disk
 * was full; that line was never acknowledged. Any other line that does not verify is damage: its contents are lost.
 */

/** The version that a header has where lines have checksums. The one before is 1. */
export const summed = 2

export interface JournalText {
  /** The lines that verify, without their checksums. */
  readonly lines: readonly (readonly unknown[])[]
  /** The first line that was lost, as `line 7`. */
  readonly damage: string | undefined
}

export function toLine(fields: readonly unknown[]): string {
  const text = JSON.stringify(fields).slice(0, -1)
  return `${text}${ending(text)}\n`
}

function ending(text: string): string {
  return `,"${checksum(text)}"]`
}

const endingLength = ending('').length

/** FNV-1a, over characters: of two texts that differ in one character only, the sums always differ. */
function checksum(text: string): string {
  let sum = 0x811c9dc5
  for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 0x01000193)
  return (sum >>> 0).toString(16).padStart(8, '0')
}

export function readLines(text: string): JournalText {
  const rows = text.split('\n')
  const tail = rows.pop() ?? ''
  const [kind, version] = parse(rows[0] ?? '') ?? []
  const read = kind === 'v' && version === 1 ? parse : verify
  const lines: (readonly unknown[])[] = []
  let damage: string | undefined
  for (const [at, row] of rows.entries()) {
    const fields = row === '' ? undefined : read(row)
    if (fields !== undefined) lines.push(fields)
    else if (row !== '') damage ??= `line ${at + 1}`
  }
  // A line whose newline alone is missing, or is another character, is whole.
  const last = read(tail) ?? read(tail.slice(0, -1))
  if (last !== undefined) lines.push(last)
  else if (!(tail === '' || (lines.length > 0 && isBegun(tail)))) damage ??= `line ${rows.length + 1}`
  return { lines, damage }
}

/** Can it be the beginning of a line? JSON has no control characters, such as the zeros that a power cut leaves. */
function isBegun(tail: string): boolean {
  return '["'.startsWith(tail.slice(0, 2)) && [...tail].every((character) => character >= ' ')
}

/** @returns undefined when the checksum is wrong */
function verify(row: string): readonly unknown[] | undefined {
  const end = Math.max(0, row.length - endingLength)
  return row.slice(end) === ending(row.slice(0, end)) ? parse(row)?.slice(0, -1) : undefined
}

/** @returns undefined when it is no line of ours */
function parse(row: string): readonly unknown[] | undefined {
  try {
    const fields: unknown = JSON.parse(row)
    return Array.isArray(fields) && isWhole(fields) ? fields : undefined
  } catch {
    return undefined
  }
}

/**
 * What a line of each kind has, field by field, as far as it is read: `s` text, `n` a number, `m` a mode; capitals: or null. Older
 * versions left out the last ones. A kind of a later version has anything.
 */
const shapes: Readonly<Record<string, string>> = {
  v: 'snsnn',
  g: 'sssmnnn',
  d: 'sssn',
  t: 'sssn',
  r: 'sss',
  x: 'sss',
  c: 'ssnSNs',
  l: 'sn',
  q: 'snns',
}

function isWhole(fields: readonly unknown[]): boolean {
  const shape = shapes[String(fields[0])] ?? ''
  return [...shape].every((kind, i) => {
    const field = fields[i]
    if (kind === 'm') return isMode(field)
    if (field === null) return kind === 'S' || kind === 'N'
    return kind.toLowerCase() === 'n' ? Number.isFinite(field) : typeof field === 'string'
  })
}

function isMode(field: unknown): boolean {
  if (!Array.isArray(field)) return field === 'x' || field === 's'
  return field.length === 2 && field.every(Number.isSafeInteger)
}
