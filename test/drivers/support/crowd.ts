// Workers that lock, stay a moment, and note it; and the check that no two were inside at once.
import assert from 'node:assert/strict'
import type { DriverFactory } from '../../../src/core/driver.js'
import { createLocks } from '../../../src/create-locks.js'

interface Section {
  readonly token: number
  readonly from: number
  readonly to: number
}

export interface Crowd {
  /** Sections so far. */
  count(): number
  /** Ends all, and fails if two held one name at once, or a token did not grow. */
  stop(): Promise<void>
}

/** @param make the driver of worker `i`: each has one of its own, as if it ran in a process of its own */
export function crowd(
  names: readonly string[],
  each: number,
  ttl: number,
  make: (i: number) => DriverFactory,
): Crowd {
  const held = new Map<string, Section[]>(names.map((name) => [name, []]))
  const all = Array.from({ length: names.length * each }, (_, i) => createLocks(make(i)))
  let go = true
  const work = all.map(async (locks, i) => {
    const name = names[i % names.length] ?? ''
    while (go) {
      const lease = await locks
        .mutex(name)
        .acquire({ ttl, wait: 30_000 })
        .catch(() => undefined)
      if (lease === undefined) continue
      const from = performance.now()
      await new Promise((resolve) => setTimeout(resolve, 5))
      const to = performance.now()
      // Only what the lease itself vouches for to the end counts.
      if (lease.isHeld) held.get(name)?.push({ token: lease.token, from, to })
      await lease.release().catch(() => undefined)
    }
  })
  return {
    count: () => [...held.values()].reduce((sum, one) => sum + one.length, 0),
    stop: async () => {
      go = false
      await Promise.all(work)
      await Promise.all(all.map((locks) => locks.close()))
      for (const [name, sections] of held) assertExcluded(name, sections)
    },
  }
}

function assertExcluded(name: string, sections: readonly Section[]): void {
  const sorted = [...sections].sort((a, b) => a.from - b.from)
  for (const [i, one] of sorted.entries()) {
    const before = sorted[i - 1]
    if (before === undefined) continue
    assert.ok(before.to <= one.from, `two held ${name} at once`)
    assert.ok(one.token > before.token, `token ${one.token} of ${name} came after ${before.token}`)
  }
}
