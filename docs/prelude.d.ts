// What the code in README.md and docs/ may use without saying where it comes from. test/docs.test.ts compiles each fence with
// this beside it; a fence that declares a name itself uses its own.

import type { Lease, Lock, Locks } from 'holdfast'
import type { MemoryTraits } from 'holdfast/memory'
import type { Redis } from 'ioredis'

declare global {
  const locks: Locks<MemoryTraits>
  const lock: Lock
  const lease: Lease
  const client: Redis
  const signal: AbortSignal
  /** What Prisma generates for `model Invoice { id Int @id; total Int; fence BigInt? }`, as far as it is used. */
  const prisma: {
    readonly invoice: {
      updateMany(args: {
        readonly where: {
          readonly id?: number
          readonly OR?: readonly { readonly fence: null | { readonly lte: bigint | number } }[]
        }
        readonly data: { readonly total?: number; readonly fence?: bigint | number }
      }): Promise<{ readonly count: number }>
    }
  }
  function work(signal?: AbortSignal): Promise<void>
}
