/** A public library as a driver of the fault lab. The `?` of this module's URL is followed by its name. */
import { BackendError } from 'holdfast'
import type { Driver, Env, Grant } from 'holdfast/driver'
import { Redis } from 'ioredis'
import { startRedis } from '../../test/support/servers/redis.js'
import { openLinks } from '../faults/links.js'
import { flush, harmlessFaults, labServer, restart } from '../faults/redis-servers.js'
import { type Client, type LabDriver, lab as made } from '../faults/store.js'
import { type Held, libraries, packageVersion } from './libraries.js'

interface PeerPlace {
  readonly port: number
  readonly ttl: number
}

const id = new URL(import.meta.url).search.slice(1)
const library = libraries[id]

export const lab: LabDriver = made({
  about: `${id} over one Redis`,
  client: (place) => open(place as PeerPlace),
  open: async ({ workers, ttl }) => {
    const server = await startRedis({ ...labServer, persistence: 'none' })
    const links = await openLinks(workers, [server.port])
    return {
      place: (n): PeerPlace => ({ port: links.through(n, server.port), ttl }),
      faults: [
        ...links.faults,
        ...harmlessFaults([server]),
        flush([server], 0),
        restart([server], { kind: 'start again without data', keepData: false }),
      ],
      settles: 10_000,
      check: { falseBusy: false },
      versions: { [server.flavour]: '7', [id]: packageVersion(id) },
      close: async () => {
        await links.close()
        await server.stop()
      },
    }
  },
})

async function open({ port, ttl }: PeerPlace): Promise<Client> {
  if (library === undefined) throw new RangeError(`no library is called '${id}'`)
  const redis = new Redis(port, '127.0.0.1', {
    maxRetriesPerRequest: null,
    retryStrategy: (times) => Math.min(20 * times, 200),
  })
  redis.on('error', () => undefined)
  const attempt = await library.open(redis, ttl)
  return { driver: (env) => driverOver(attempt, env), close: () => redis.disconnect() }
}

/** Polls every 5 to 20 ms. It trusts the library's own state, which it reads each time. */
function driverOver(attempt: (key: string) => Promise<Held | undefined>, env: Env): Driver {
  const { clock } = env
  const telling = <T>(work: Promise<T>): Promise<T> =>
    work.catch((error: unknown) => {
      throw new BackendError(id, String(error))
    })
  let last = 0
  const createGrant = (held: Held): Grant => {
    // None of the libraries has a token: this one is the lab's own, so that the history has one.
    last = Math.max(last + 1, Math.floor(performance.timeOrigin * 1000 + performance.now() * 1000))
    return {
      token: last,
      get validUntil() {
        return clock.now() + held.left()
      },
      renew: async (ttl) => {
        const kept = held.extend === undefined ? held.left() > 0 : await telling(held.extend())
        return kept ? clock.now() + Math.min(ttl, held.left()) : undefined
      },
      release: async () => {
        await telling(held.release())
        return 'released'
      },
    }
  }
  return {
    name: id,
    traits: { modes: ['exclusive'], fair: false, minTtl: 1, shared: true },
    async acquire({ name }, wait) {
      for (;;) {
        const held = await telling(attempt(`peer:${name}`))
        if (held !== undefined) return createGrant(held)
        if (wait.ended || wait.remaining() === 0) return undefined
        await new Promise((resolve) => setTimeout(resolve, 5 + 15 * env.random()))
        if (wait.ended) return undefined
      }
    },
    inspect: async (name) => ({ name, holders: [], waiters: [], lastToken: 0 }),
    close: async () => undefined,
  }
}
