/** What a node says of whoever made it, for operators and those who wait. Others write plain text there, or nothing. */
import type { Claim } from '../../core/driver.js'

export interface Record {
  readonly by?: string
  readonly note?: string
}

export function recordOf({ attempt, note }: Claim, by: string): Buffer {
  return Buffer.from(JSON.stringify({ attempt, by, ...(note !== undefined && { note }) }))
}

/** Curator writes the address of its machine, kazoo what its user gave as identifier: shown as `by`. */
export function readRecord(data: Buffer): Record & { readonly attempt?: string } {
  const text = data.toString()
  try {
    const { attempt, by, note } = JSON.parse(text)
    if (typeof attempt === 'string') {
      return {
        attempt,
        ...(typeof by === 'string' && { by }),
        ...(typeof note === 'string' && { note }),
      }
    }
  } catch {
    // Not ours.
  }
  const printable = text.replace(/[^\x20-\x7e]/g, '').trim()
  return printable === '' ? {} : { by: printable.slice(0, 120) }
}
