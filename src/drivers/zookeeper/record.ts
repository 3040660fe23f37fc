/** The content of a queue entry: its client, for operators and waiters. Other clients write plain text there, or nothing. */
import type { Claim } from '../../core/driver.js'

export interface Record {
  readonly client?: string
  readonly note?: string
}

export function encodeRecord({ attempt, note }: Claim, by: string): Buffer {
  return Buffer.from(JSON.stringify({ attempt, by, ...(note !== undefined && { note }) }))
}

/** Curator writes the address of its machine, kazoo the identifier that its user gave: both are shown as `client`. */
export function parseRecord(data: Buffer): Record & { readonly attempt?: string } {
  const text = data.toString()
  try {
    const { attempt, by, note } = JSON.parse(text)
    if (typeof attempt === 'string') {
      return {
        attempt,
        ...(typeof by === 'string' && { client: by }),
        ...(typeof note === 'string' && { note }),
      }
    }
  } catch {
    // Not ours.
  }
  const printable = text.replace(/[^\x20-\x7e]/g, '').trim()
  return printable === '' ? {} : { client: printable.slice(0, 120) }
}
