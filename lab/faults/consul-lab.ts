/** Shared by the lab's Consul drivers: clients, further faults of an agent, and how long a waiter may wait at the end. */
import { consul } from 'holdfast/consul'
import type { ConsulServer } from '../../test/support/servers/consul.js'
import type { Client, Fault } from './store.js'

/** `session_ttl_min` of the servers, in ms. */
export const minTtl = 1_000

export function openConsul(ports: readonly number[], session: 'process' | 'lock'): Client {
  const url = ports.map((port) => `http://127.0.0.1:${port}`)
  const driver = consul({ url, session, minTtl: minTtl, requestTimeout: 500 })
  return { driver, close: () => undefined }
}

/** How much longer than its holder the store may keep a queue entry, in ms: docs/drivers/consul.md. */
export const retainedAfterDeath = (ttl: number): number => 4 * Math.ceil(ttl * 1.1) + 12_000

/** At the end the waiters ahead have their sections, of at most two ttls each, one after another. */
export const settleTime = (ttl: number, workers: number): number =>
  retainedAfterDeath(ttl) + 2 * ttl * (workers - 1)

/** An operator destroys a session with holders and waiters. */
export function destruction(servers: readonly ConsulServer[], ttl: number): Fault {
  return {
    kind: 'a session destroyed',
    subjects: ['sessions'],
    lasts: [0.05, 0.1],
    apart: 2 * ttl,
    excuses: [
      {
        rules: ['exclusion', 'read-write', 'permits'],
        within: Math.ceil(1.1 * ttl),
        why: 'a session that an operator destroys is known to be gone at its next beat only (docs/drivers/consul.md)',
      },
    ],
    begin: async ({ amount }) => {
      // An agent that is down, frozen or without a majority does not execute it, which is fine.
      const order = (method: string, path: string) =>
        servers[Math.floor(amount * servers.length)]?.ask(method, path).catch(() => undefined)
      const sessions = ((await order('GET', '/v1/session/list')) ?? []) as readonly { readonly ID: string }[]
      const one = sessions[Math.floor(amount * 1_000) % Math.max(1, sessions.length)]
      if (one !== undefined) await order('PUT', `/v1/session/destroy/${one.ID}`)
      return undefined
    },
  }
}

/** Whichever of them takes a write. */
export const createAnswerCheck =
  (servers: readonly ConsulServer[]) =>
  (signal: AbortSignal): Promise<unknown> =>
    Promise.any(servers.map((server) => server.ask('PUT', '/v1/kv/answers', 'x', signal)))

export async function readVersion(server: ConsulServer): Promise<string> {
  const { Config } = (await server.ask('GET', '/v1/agent/self')) as { Config: { Version: string } }
  return Config.Version
}
