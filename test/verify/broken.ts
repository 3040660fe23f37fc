// Drivers with one bug each, over one that has none: see injected.test.ts.
import type { Claim, Driver, Grant, Wait } from 'holdfast/driver'

type Acquire = Driver['acquire']

/** Every claim has the lock to itself, because it is asked for under a name of its own. */
export const alone = ({ acquire }: Driver): Partial<Driver> => ({
  acquire: (claim, wait) => acquire({ ...claim, name: `${claim.name} ${claim.attempt}` }, wait),
})

export const changed = (
  inner: Driver,
  change: (grant: Grant, claim: Claim) => Partial<Grant>,
): Partial<Driver> => ({
  acquire: async (claim: Claim, wait: Wait) => {
    const grant = await inner.acquire(claim, wait)
    if (grant === undefined) return undefined
    return {
      token: grant.token,
      validUntil: grant.validUntil,
      renew: (ttl: number, signal: AbortSignal) => grant.renew(ttl, signal),
      release: () => grant.release(),
      ...change(grant, claim),
    }
  },
})

/** A line that is served from its end. */
export function newestFirst({ acquire }: Driver): Partial<Driver> {
  const line: (() => void)[] = []
  let held = false
  const free = () => {
    held = false
    line.pop()?.()
  }
  const stack: Acquire = async (claim, wait) => {
    if (held) {
      wait.report?.({ position: 1 })
      await new Promise<void>((resolve) => line.push(resolve))
    }
    held = true
    const grant = await acquire(claim, wait)
    if (grant === undefined) return undefined
    const release = () => grant.release().finally(free)
    const { token, validUntil } = grant
    return { token, validUntil, renew: (ttl, signal) => grant.renew(ttl, signal), release }
  }
  return { acquire: stack }
}

/** Whoever comes while somebody holds is never thought of again. */
export function forgetting(acquire: Acquire): Acquire {
  let came = 0
  return async (claim, wait) => {
    if (++came === 1) return acquire(claim, wait)
    return new Promise((resolve) => wait.signal.addEventListener('abort', () => resolve(undefined)))
  }
}
