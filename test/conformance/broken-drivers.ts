/** Good drivers made bad, each with one mistake that locks in the wild have had, and the tests that must see it. */
import { BackendError, type DriverFactory } from 'holdfast'
import {
  type Cells,
  type Claim,
  type Driver,
  deadline,
  type Env,
  type Grant,
  type Wait,
} from 'holdfast/driver'

export interface BrokenDriver {
  readonly mistake: string
  readonly breaks: (factory: DriverFactory) => DriverFactory
  /** In ms, where a lease that a busy machine renews too late would end as a good driver's does. */
  readonly ttl?: number
  /** Aspect, the beginning of the test's name, what it must say. */
  readonly seenBy: readonly (readonly [aspect: string, test: string, says: RegExp])[]
}

type Change = (driver: Driver, env: Env) => Partial<Driver>

const changed =
  (change: Change) =>
  (factory: DriverFactory): DriverFactory =>
  (env) => {
    const driver = factory(env)
    return { ...driver, ...change(driver, env) }
  }

/** Only the grant is different. */
const regranted = (regrant: (grant: Grant, driver: Driver, claim: Claim, env: Env) => Partial<Grant>) =>
  changed((driver, env) => ({
    acquire: async (claim, wait) => {
      const grant = await driver.acquire(claim, wait)
      return grant && overlay(grant, regrant(grant, driver, claim, env))
    },
  }))

function overlay(grant: Grant, parts: Partial<Grant>): Grant {
  const get = (_: Grant, key: string) => {
    if (Object.hasOwn(parts, key)) return Reflect.get(parts, key)
    const value = Reflect.get(grant, key, grant)
    return typeof value === 'function' ? value.bind(grant) : value
  }
  const set = (_: Grant, key: string, value: unknown) =>
    Object.hasOwn(parts, key) ? Reflect.set(parts, key, value) : Reflect.set(grant, key, value, grant)
  return new Proxy(grant, { get, set } as ProxyHandler<Grant>)
}

const cellsChanged = (change: (cells: Cells, env: Env) => Partial<Cells>) =>
  changed(({ cells }, env) => {
    if (cells === undefined) throw new Error('this mistake needs a driver with cells')
    return { cells: { ...cells, ...change(cells, env) } }
  })

const asks = (driver: Driver, claim: Claim, wait: Wait) => driver.acquire(claim, wait)

export const brokenDrivers: readonly BrokenDriver[] = [
  {
    mistake: 'a release that deletes whatever is there, without asking whose it is',
    breaks: regranted((_, driver, { name }) => ({
      release: async () => {
        await driver.forceRelease?.(name)
        return 'released'
      },
    })),
    seenBy: [
      ['messages that come twice', 'answer a repeated release', /is free, it should be held/],
      ['losing a lease', 'is for good', /is free, it should be held|'lost'/],
    ],
  },
  {
    mistake: 'a cell that is looked at and then replaced, in two steps',
    breaks: cellsChanged((cells, env) => ({
      write: async (key, change, signal) => {
        const before = await cells.read(key, signal)
        if ((before?.version ?? 0) !== change.ifVersion) return undefined
        await new Promise(setImmediate)
        for (;;) {
          const now = await cells.read(key, signal)
          const again = { ...change, ifVersion: now?.version ?? 0, id: env.id() }
          const cell = await cells.write(key, again, signal)
          if (cell !== undefined) return cell
        }
      },
    })),
    seenBy: [['cells', 'let exactly one of many writers win', /!==|strictly equal/]],
  },
  {
    mistake: 'a cell that does not know a change that comes twice',
    breaks: cellsChanged((cells, env) => ({
      write: (key, change, signal) => cells.write(key, { ...change, id: env.id() }, signal),
    })),
    seenBy: [['cells', 'answer a change that is sent twice', /deep-equal/]],
  },
  {
    mistake: 'a change of a cell that nobody hears of',
    breaks: cellsChanged((cells) => ({
      changed: (key, _, signal) => cells.changed(`${key} nothing`, 0, signal),
    })),
    seenBy: [['cells', 'wake the watchers of a change', /timed out|timeout/]],
  },
  {
    mistake: 'tokens that repeat',
    breaks: regranted((grant) => {
      const coarse = Math.floor(grant.token / 1e12)
      return { token: coarse, nextReservedToken: () => coarse }
    }),
    seenBy: [
      ['tokens', 'grow with every grant of a name', /token \d+ came after \d+/],
      ['tokens', 'grow when a lease has run out', /token \d+ came after \d+/],
      ['exclusion', 'never has two holders', /tokens: .* was given twice/],
    ],
  },
  {
    mistake: 'the token of the reserve is not used when a lock is passed on',
    breaks: regranted((grant) => ({ nextReservedToken: () => grant.token })),
    seenBy: [
      ['tokens', 'grow when the lock is passed on', /token \d+ came after \d+/],
      ['lock caching', 'keeps the grant', /token \d+ came after \d+/],
      ['lock caching', 'gives each lease its own token', /token \d+ came after \d+/],
    ],
  },
  {
    // Counting from when the answer was read breaks nothing any more: the core counts from the call itself.
    mistake: 'a renewal that asks the store for less than it tells its holder',
    // A machine that is paused for the rest of it makes it over, as a good driver's is.
    ttl: 3_000,
    breaks: regranted((grant, _, { ttl }, env) => {
      let validUntil = deadline(env.clock.now(), ttl)
      const renew: Grant['renew'] = async (ttl, signal) => {
        const sent = env.clock.now()
        const answer = await grant.renew(ttl / 3, signal)
        if (answer !== undefined) validUntil = deadline(sent, ttl)
        return answer && validUntil
      }
      return Object.defineProperty({ renew }, 'validUntil', { get: () => validUntil, enumerable: true })
    }),
    seenBy: [['deadlines', 'count from when a renewal was asked for', /two clients believed to hold it/]],
  },
  {
    mistake: 'a deadline without anything off for drift',
    breaks: regranted((_, __, { ttl }, env) => ({ validUntil: env.clock.now() + ttl })),
    seenBy: [['messages that come twice', 'count deadlines', /leaves nothing for drift/]],
  },
  {
    mistake: 'a renewal that takes every answer for a yes',
    ttl: 3_000,
    breaks: regranted((grant, _, { ttl }, env) => {
      let validUntil = deadline(env.clock.now(), ttl)
      const renew: Grant['renew'] = async (ttl, signal) => {
        const sent = env.clock.now()
        await grant.renew(ttl, signal)
        validUntil = deadline(sent, ttl)
        return validUntil
      }
      // Nor does it learn of a loss in any other way.
      const deaf = { renew, lost: undefined } as unknown as Partial<Grant>
      return Object.defineProperty(deaf, 'validUntil', { get: () => validUntil, enumerable: true })
    }),
    seenBy: [
      ['losing a lease', 'is noticed within a renewal', /waiting for the loss/],
      [
        'tools for operators',
        'force a release and notify the holder',
        /waiting for the old holder to be told/,
      ],
    ],
  },
  {
    mistake: 'a grant that comes after the wait has ended is forgotten',
    breaks: changed((driver) => ({
      acquire: (claim, wait) => {
        const endless: Wait = {
          signal: new AbortController().signal,
          ended: false,
          remaining: () => wait.remaining(),
          report: (by) => wait.report?.(by),
        }
        const gone = new Promise<undefined>((resolve) => {
          if (wait.remaining() > 0) wait.signal.addEventListener('abort', () => resolve(undefined))
        })
        return Promise.race([asks(driver, claim, endless), gone])
      },
    })),
    seenBy: [
      [
        'cancelling a wait',
        'by an abort just before',
        /was not free within|gave no answer|nothing of .* to be left/,
      ],
      ['waiting', 'rejects with the reason of an abort', /waiting for the queue entry to be gone/],
      [
        'lock caching',
        'refuses a single attempt when the lock is held',
        /waiting for its queue entry to be gone/,
      ],
    ],
  },
  {
    mistake: 'now and then a grant without asking the store',
    breaks: (factory) => {
      let count = 0
      return changed((driver, env) => ({
        acquire: async (claim, wait) => {
          const grant = await asks(
            driver,
            ++count % 3 === 0 ? { ...claim, name: `${claim.name} ${env.id()}` } : claim,
            wait,
          )
          return grant
        },
      }))(factory)
    },
    seenBy: [
      [
        'exclusion',
        'never has two holders',
        // In one process the core itself notices, and ends the older lease.
        /was held twice at once|was given twice|increments were lost|came after|was ended by the store/,
      ],
    ],
  },
  {
    mistake: 'asking again and again instead of queueing',
    breaks: changed((driver) => ({
      acquire: async (claim, wait) => {
        for (;;) {
          const once: Wait = { signal: wait.signal, ended: wait.ended, remaining: () => 0 }
          const grant = await asks(driver, claim, once)
          if (grant !== undefined || wait.remaining() === 0) return grant
          await new Promise((resolve) => setTimeout(resolve, 20))
        }
      },
    })),
    seenBy: [
      ['fairness', 'with `fair: true` is first come, first served', /in the queue/],
      ['waiting', 'notifies the waiter at once', /in the queue|hand-over took/],
    ],
  },
  {
    mistake: 'a grant that never hears that others wait',
    breaks: regranted(() => ({ contended: () => false })),
    seenBy: [['fairness', 'without it is bounded', /waiting for the holder to hear of it/]],
  },
  {
    // What has run out, or is in doubt, is still not reused, and a reserve of tokens has an end: the core sees to that.
    mistake: 'a cached grant that hears of nothing, and whose deadline moves with the clock',
    breaks: regranted((_, __, { ttl }, env) => ({
      contended: () => false,
      onContended: undefined,
      lost: undefined as never,
      get validUntil() {
        return env.clock.now() + ttl
      },
    })),
    seenBy: [
      ['lock caching', 'ends when another client waits', /waiting for the waiter to be served/],
      ['lock caching', 'ends for a waiter with `fair: true`', /waiting for the holder to hear of it/],
    ],
  },
  {
    mistake: 'a forced release that forces nothing',
    breaks: changed((driver) => ({
      forceRelease: async (name) => (await driver.inspect(name)).holders.length,
    })),
    seenBy: [['lock caching', 'ends with a forced release', /waiting for another grant/]],
  },
  {
    mistake: 'a refusal that does not say who holds',
    breaks: changed((driver) => ({
      acquire: (claim, wait) =>
        asks(
          driver,
          claim,
          wait.remaining() > 0 ? wait : { signal: wait.signal, ended: wait.ended, remaining: () => 0 },
        ),
    })),
    seenBy: [
      ['lock caching', 'does not refuse a single attempt', /waiting for tryAcquire\(\) to be granted/],
    ],
  },
  {
    mistake: 'a release that stays in the process',
    breaks: changed((driver) => ({
      acquire: async (claim, wait) => {
        // On a busy machine the suite waits for longer than a ttl, and then the lock is free anyway.
        const grant = await asks(driver, { ...claim, ttl: 3_600_000 }, wait)
        return grant && overlay(grant, { release: async () => 'released' })
      },
    })),
    seenBy: [
      ['lock caching', 'ends with close()', /waiting for .* to be free/],
      ['lock caching', 'ends when `linger` is over', /waiting for it to be given back/],
    ],
  },
  {
    mistake: 'permits that all weigh the same',
    breaks: changed((driver) => ({
      acquire: (claim, wait) => {
        const { mode } = claim
        return asks(driver, mode.kind === 'permits' ? { ...claim, mode: { ...mode, take: 1 } } : claim, wait)
      },
    })),
    seenBy: [
      ['semaphores', 'count by weight', /./],
      ['semaphores', 'never exceed the limit', /permits of 4 were taken at once/],
    ],
  },
  {
    mistake: 'readers that pass for writers',
    breaks: changed((driver) => ({
      acquire: (claim, wait) =>
        asks(driver, claim.mode.kind === 'shared' ? { ...claim, mode: { kind: 'exclusive' } } : claim, wait),
    })),
    seenBy: [['read/write locks', 'let readers in together', /was not free within/]],
  },
  {
    mistake: 'a first look at a name that ends with an error of the store',
    breaks: changed((driver) => {
      const seen = new Set<string>()
      const inspect = async (name: string) => {
        if (seen.has(name)) return driver.inspect(name)
        seen.add(name)
        throw new BackendError('the store', 'unknown command')
      }
      return { inspect }
    }),
    seenBy: [['leaks', 'are not caused by listeners', /unknown command/]],
  },
  {
    mistake: 'names that are tidied up',
    breaks: changed((driver) => ({
      acquire: (claim, wait) => asks(driver, { ...claim, name: claim.name.normalize().trim() }, wait),
      inspect: (name) => driver.inspect(name.normalize().trim()),
    })),
    seenBy: [['names', 'that differ anywhere are different locks', /was not free within/]],
  },
  {
    mistake: 'a heartbeat that is never stopped',
    breaks: changed((driver) => ({
      acquire: (claim, wait) => {
        hearts.add(setInterval(() => undefined, 1_000))
        return asks(driver, claim, wait)
      },
    })),
    seenBy: [['closing', 'leaves nothing that keeps the process alive', /left: .*Timeout/]],
  },
]

const hearts = new Set<NodeJS.Timeout>()

/** The one mistake that would outlive its test. */
export function stopHearts(): void {
  for (const heart of hearts) clearInterval(heart)
}
