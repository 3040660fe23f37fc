/**
 * Whether an answer can be read. `SET character_set_results = utf16`, left on a connection of the pool, has the server write every text, and MariaDB
 * also every number, in characters of two bytes: a client takes them for other texts and numbers, and a held lock looks free.
 */
import type { Value } from './client.js'

/** The connection was left with a character set that the client does not read. */
export class UnreadableAnswerError extends Error {}

/**
 * The clients do not know every character set (`swe7`, `dec8`, `hp8`, …): mysql2 decodes no answer in one, and neither encodes a statement.
 * @returns an UnreadableAnswerError for what their decoder, iconv-lite, says then; any other error as it is
 */
export function unreadable(error: unknown): unknown {
  const isUnknown = error instanceof Error && error.message.includes('Encoding not recognized')
  return isUnknown ? new UnreadableAnswerError(error.message, { cause: error }) : error
}

/**
 * What comes from outside is in binary columns, which no character set changes. Texts of the driver are ASCII, its numbers whole and not
 * negative.
 * @throws UnreadableAnswerError
 */
export function assertReadable(rows: readonly (readonly Value[])[]): void {
  for (const row of rows) {
    for (const value of row)
      if (!isReadable(value)) throw new UnreadableAnswerError('the answer cannot be read')
  }
}

function isReadable(value: Value): boolean {
  if (typeof value === 'string') return /^[ -~]*$/.test(value)
  if (typeof value !== 'number' && typeof value !== 'bigint') return true
  const number = Number(value)
  return Number.isSafeInteger(number) && number >= 0
}
