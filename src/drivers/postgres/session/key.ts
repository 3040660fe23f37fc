/** Names as the strategy `session` and `inTransaction` use them: both lock the same key, so they exclude each other. */
import { createHash } from 'node:crypto'

/**
 * The first 64 bits of SHA-256 over namespace and name, as PostgreSQL's bigint. Two names meet by chance only once there are
 * billions; the namespace keeps them apart from other programs that hash names too.
 */
export function lockKey(namespace: string, name: string): string {
  return createHash('sha256').update(`${namespace}\0${name}`).digest().readBigInt64BE(0).toString()
}

/** In the tables, apart from the rows of the strategy `row`: no name has a control character. */
export const rowName = (name: string): string => `\u0001${name}`
export const nameOfRow = (name: string): string => name.slice(1)
