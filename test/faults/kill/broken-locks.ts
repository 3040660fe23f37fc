// Locks as they are often written. The kill loop must catch them, or it proves nothing.
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DriverFactory } from 'holdfast'
import { local } from 'holdfast/local'

/** A lock file that counts as stale, and the next process removes it, once it is older than its `staleAfter` in ms. */
export function lockFile(folder: string, staleAfter: number): DriverFactory {
  return ({ clock }) => ({
    name: 'lock-file',
    traits: { modes: ['exclusive'], fair: false, minTtl: 1, shared: true },
    async acquire(claim, wait) {
      const path = join(folder, `${claim.name}.lock`)
      for (;;) {
        if (take(path, staleAfter)) break
        if (wait.ended || wait.remaining() === 0) return undefined
        await new Promise((resolve) => setTimeout(resolve, 2))
      }
      return {
        token: count(join(folder, `${claim.name}.token`)),
        validUntil: clock.now() + claim.ttl,
        renew: async (ttl) => clock.now() + ttl,
        release: async () => {
          rmSync(path, { force: true })
          return 'released'
        },
      }
    },
    inspect: async (name) => ({ name, holders: [], waiters: [], lastToken: 0 }),
    close: async () => undefined,
  })
}

function take(path: string, staleAfter: number): boolean {
  try {
    writeFileSync(path, '', { flag: 'wx' })
    return true
  } catch {
    const stat = statSync(path, { throwIfNoEntry: false })
    if (stat !== undefined && Date.now() - stat.mtimeMs > staleAfter) rmSync(path, { force: true })
    return false
  }
}

function count(path: string): number {
  let last = 0
  try {
    last = Number(readFileSync(path, 'utf8'))
  } catch {
    // The first one.
  }
  writeFileSync(path, `${last + 1}`)
  return last + 1
}

/** The embedded driver with a token of its own making: seconds since 1970. */
export function secondsAsToken(directory: string): DriverFactory {
  const make = local({ directory })
  return (env) => {
    const driver = make(env)
    return {
      ...driver,
      acquire: async (claim, wait) => {
        const grant = await driver.acquire(claim, wait)
        const token = Math.floor(Date.now() / 1000)
        return (
          grant &&
          Object.defineProperties(grant, {
            token: { value: token },
            nextReservedToken: { value: () => token },
          })
        )
      },
    }
  }
}
