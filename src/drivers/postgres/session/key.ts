/** Keys and row names of the strategy `session` and `inTransaction`: both lock the same key, so they exclude each other. */
import { createHash } from 'node:crypto'

/**
 * The first 64 bits of SHA-256 over namespace and name, as a PostgreSQL bigint. Two names collide by chance only once there are
 * billions; the namespace separates the keys from those of other programs that also hash names.
 */
export function lockKey(namespace: string, name: string): string {
  return createHash('sha256').update(`${namespace}\0${name}`).digest().readBigInt64BE(0).toString()
}

/** The default namespace. */
export const defaultNamespace = 'holdfast'

/** The name in the tables, distinct from the rows of the strategy `row` and of other namespaces: neither has a control character. */
export function rowName(namespace: string, name: string): string {
  return namespace === defaultNamespace ? `\u0001${name}` : `\u0001${namespace}\u0001${name}`
}

/** Undefined: the row belongs to another namespace. */
export function parseRowName(namespace: string, row: string): string | undefined {
  const name = row.slice(rowName(namespace, '').length)
  return name.includes('\u0001') ? undefined : name
}
