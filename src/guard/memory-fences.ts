/** The newest token of each name, in a bounded amount of memory. */
import { randomInt } from 'node:crypto'
import { StaleTokenError } from '../core/errors.js'
import { describe } from '../core/name.js'
import { checkFence } from './fence.js'
import type { Fences } from './http.js'

/** How many values stand in for the names that are no longer kept one by one: 512 KiB. */
const buckets = 2 ** 16

/**
 * In this process, until it ends. The last `names` names in use are kept one by one. Of the others only the newest
 * token of each of 65,536 groups is kept: no stale token is ever admitted, but the holder of a name that was not used
 * for long may be refused beside a newer one of the same group.
 */
export function memoryFences({ names = 10_000 }: { readonly names?: number } = {}): Fences {
  if (!Number.isInteger(names) || names < 1)
    throw new RangeError(`names must be an integer of at least 1, got ${describe(names)}`)
  /** In the order of their last use. */
  const newest = new Map<string, number>()
  let others: Float64Array | undefined
  // With the seed no outsider can choose a name that shares the group of another one.
  const seed = randomInt(2 ** 32)
  const group = (name: string) => hash(name, seed) % buckets
  return {
    async admit(fence) {
      const { name, token } = checkFence(fence)
      const seen = newest.get(name) ?? others?.[group(name)] ?? 0
      if (seen > token) throw new StaleTokenError(name, token, seen)
      newest.delete(name)
      newest.set(name, token)
      if (newest.size <= names) return
      const [oldest] = newest
      if (oldest === undefined) return
      newest.delete(oldest[0])
      others ??= new Float64Array(buckets)
      const at = group(oldest[0])
      others[at] = Math.max(others[at] ?? 0, oldest[1])
    },
  }
}

/** Multiply and mix, 32 bits. */
function hash(name: string, seed: number): number {
  let h = seed
  for (let i = 0; i < name.length; i++) {
    h = Math.imul(h ^ name.charCodeAt(i), 0x9e3779b1)
    h ^= h >>> 15
  }
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  return (h ^ (h >>> 13)) >>> 0
}
