/** Messages between each client and the server: late, lost, in order on each connection, and broken off. */
import { BackendError } from 'holdfast/driver'
import type { Chance } from '../faults/chance.js'
import { nobody, type World } from './world.js'

export interface Connection {
  /** Resolves with the answer, if one comes. Rejects when the connection breaks first. */
  ask(request: unknown): Promise<unknown>
  /** A message of the server. */
  onPush: (message: string) => void
}

export interface Network {
  connect(client: number): Connection
  push(client: number, message: string): void
  /** Until the given moment of the world. */
  lose(client: number, direction: 'up' | 'down', until: number): void
  delay(client: number, ms: number, until: number): void
  reset(client: number): void
  /** The server answers nobody; what arrives is done when it wakes up. */
  silence(until: number): void
}

interface Lane {
  lostUntil: number
  /** When the newest message arrives: none overtakes another. */
  last: number
}

export function makeNetwork(
  world: World,
  dice: Chance,
  handle: (request: unknown, client: number) => unknown,
): Network {
  const links = new Map<
    number,
    {
      up: Lane
      down: Lane
      late: number
      lateUntil: number
      epoch: number
      connection: Connection
      open: Set<(error: Error) => void>
    }
  >()
  let silentUntil = 0

  const link = (client: number) => {
    const found = links.get(client)
    if (found === undefined) throw new RangeError(`client ${client} has no connection`)
    return found
  }

  const travel = (client: number, direction: 'up' | 'down', arrive: () => void) => {
    const one = link(client)
    const { epoch } = one
    const lane = one[direction]
    if (lane.lostUntil > world.now) return
    const late = one.lateUntil > world.now ? one.late : 0
    const at = Math.max(lane.last, world.now + late + 0.05 + dice.next() * (dice.next() < 0.1 ? 20 : 1.5))
    const when = direction === 'up' ? Math.max(at, silentUntil) : at
    lane.last = at
    world.schedule(when, direction === 'up' ? nobody : client, () => {
      if (one.epoch === epoch) arrive()
    })
  }

  return {
    connect(client) {
      const connection: Connection = {
        onPush: () => undefined,
        ask: (request) =>
          new Promise((resolve, reject) => {
            const { open } = link(client)
            open.add(reject)
            travel(client, 'up', () => {
              const answer = handle(request, client)
              travel(client, 'down', () => {
                open.delete(reject)
                resolve(answer)
              })
            })
          }),
      }
      const lane = () => ({ lostUntil: 0, last: 0 })
      links.set(client, {
        up: lane(),
        down: lane(),
        late: 0,
        lateUntil: 0,
        epoch: 0,
        connection,
        open: new Set(),
      })
      return connection
    },
    push: (client, message) => travel(client, 'down', () => link(client).connection.onPush(message)),
    lose(client, direction, until) {
      link(client)[direction].lostUntil = until
    },
    delay(client, ms, until) {
      Object.assign(link(client), { late: ms, lateUntil: until })
    },
    reset(client) {
      const one = link(client)
      one.epoch++
      one.up.last = 0
      one.down.last = 0
      const open = [...one.open]
      one.open.clear()
      world.schedule(world.now, client, () => {
        for (const reject of open) reject(new BackendError('wire', 'the connection was reset'))
      })
    },
    silence(until) {
      silentUntil = until
    },
  }
}
