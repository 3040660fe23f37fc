/** Faults of a database server of any kind. */

import { forgottenAfter } from './sequences.js'
import { type Act, type Fault, secondHolder } from './store.js'

/** Common to the PostgreSQL, MySQL and MariaDB servers of the tests. */
export interface DatabaseServer {
  pause(): void
  resume(): void
  kill9(): Promise<void>
  powerCut(): Promise<void>
  restart(): Promise<void>
  clockJump(ms: number): void
}

export const subjects: readonly string[] = ['server 0']

/** An instantaneous fault. */
export function statedFault(kind: string, weight: number, work: () => Promise<unknown>): Fault {
  return {
    kind: `server: ${kind}`,
    subjects,
    weight,
    lasts: [0.05, 0.1],
    begin: async () => {
      await work()
      return undefined
    },
  }
}

/** @param apart ms the server takes to come back */
export function outages(server: DatabaseServer, apart: number): Fault[] {
  const down = (kind: string, end: () => Promise<void>): Fault => ({
    kind: `server: ${kind}`,
    subjects,
    lasts: [0.05, 1],
    apart,
    begin: async () => {
      await end()
      return () => server.restart()
    },
  })
  return [
    {
      kind: 'server: pause',
      subjects,
      weight: 2,
      begin: () => {
        server.pause()
        return () => server.resume()
      },
    },
    down('kill and start again', () => server.kill9()),
    down('power cut', () => server.powerCut()),
  ]
}

/** `by`: -1 back, 1 ahead, by up to ten ttls. Permanent. */
export function clockJump(server: DatabaseServer, by: -1 | 1, ttl: number): Fault {
  return {
    kind: by < 0 ? 'server: clock back' : 'server: clock ahead',
    subjects: ['clock'],
    lasts: [0.05, 0.1],
    apart: by < 0 ? forgottenAfter * ttl : 2_000,
    begin: ({ amount }: Act) => {
      server.clockJump(by * Math.round((0.5 + 9.5 * amount) * ttl))
      return undefined
    },
  }
}

/** A jump ahead, for leases that end by the server's clock. @param page the page that says so */
export function clockAhead(server: DatabaseServer, ttl: number, page: string): Fault {
  const why = `a jump forward of the server's own clock can end a lease early (${page})`
  return {
    ...clockJump(server, 1, ttl),
    excuses: [{ rules: secondHolder, within: ttl, why }],
  }
}
