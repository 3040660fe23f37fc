// The conformance suite over one kind of socket, for the files that run it. The broker runs in a process of its own, to be stopped.
import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { after } from 'node:test'
import type { DriverFactory } from 'holdfast'
import { conformance, type Fixture, type Runner } from 'holdfast/conformance'
import { type LocalOptions, local } from 'holdfast/local'
import { hasColumn } from '../../support/promises.js'
import { endAll, freshDirectory, start } from './processes.js'

const traits = {
  modes: ['exclusive', 'shared', 'permits'],
  fair: true,
  minTtl: 100,
  shared: true,
  cells: true,
  portable: true,
  caching: true,
  acquireMany: true,
} as const

/** Which client a socket belongs to: whatever a client does, and what follows from it, runs inside its own context. */
const acting = new AsyncLocalStorage<DriverFactory>()
const sockets = new Map<DriverFactory, Set<Socket>>()
const cut = new Set<DriverFactory>()

/** Nothing gets through in either direction, and neither end is told. */
function block(socket: Socket): void {
  socket.cork()
  socket.pause()
}

subscribe('net.client.socket', (event) => {
  const { socket } = event as { socket: Socket }
  const client = acting.getStore()
  if (client === undefined) return
  const mine = sockets.get(client) ?? new Set()
  sockets.set(client, mine.add(socket))
  socket.once('close', () => mine.delete(socket))
  // Asked when it is connected: by then it may have been healed.
  socket.once('connect', () => {
    if (cut.has(client)) block(socket)
  })
})

function client(options: LocalOptions): DriverFactory {
  const open = local(options)
  const factory: DriverFactory = (env) => {
    const driver = open(env)
    const { cells, inspect } = driver
    const as = <T>(fn: () => T): T => acting.run(factory, fn)
    return {
      ...driver,
      acquire: (claim, wait) => as(() => driver.acquire(claim, wait)),
      inspect: (name) => as(() => inspect(name)),
      ...(cells && {
        cells: {
          read: (key, signal) => as(() => cells.read(key, signal)),
          write: (key, change, signal) => as(() => cells.write(key, change, signal)),
          changed: (key, version, signal) => as(() => cells.changed(key, version, signal)),
        },
      }),
    }
  }
  return factory
}

async function fixture(socket: 'abstract' | 'file'): Promise<Fixture> {
  const options = { directory: freshDirectory(), socket }
  const broker = await start(options)
  await broker.acquire('who-runs-the-broker')
  return {
    name: `local over ${socket} sockets`,
    traits,
    ...hasColumn('local'),
    make: () => client(options),
    reportsLoss: true,
    childClient: { module: import.meta.resolve('holdfast/local'), export: 'local', args: [options] },
    faults: {
      cut(one) {
        cut.add(one)
        for (const socket of sockets.get(one) ?? []) block(socket)
      },
      heal() {
        cut.clear()
        broker.go()
        for (const all of sockets.values()) {
          for (const socket of all) {
            socket.uncork()
            socket.resume()
          }
        }
      },
      stop: () => broker.stop(),
    },
  }
}

export async function conformsOver(socket: 'abstract' | 'file', runner: Runner): Promise<void> {
  conformance(runner, await fixture(socket))
  after(endAll)
}
