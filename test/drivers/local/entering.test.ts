// A connection breaks just as a wait is granted, and the wait is given up before the next connection is up.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { linkSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { leakCheck } from '../../support/leaks.js'
import { until } from '../../support/until.js'
import { endAll, freshDirectory, start } from './processes.js'

/** A relay in the place of the broker's socket. */
interface Relay {
  /** From now on nothing reaches the clients, but for the broker's first line on a new connection. */
  hold(): void
  /** Ends the clients' connections. */
  cut(): void
  /** Has a client entered since `hold`? */
  readonly entered: boolean
  release(): void
  close(): Promise<void>
}

async function relay(directory: string): Promise<Relay> {
  const name = readdirSync(directory).find((file) => /^broker-\d+$/.test(file)) ?? ''
  const { socket } = JSON.parse(readFileSync(join(directory, name), 'utf8')) as { socket: string }
  const [path, real] = [join(directory, socket), join(directory, `${socket}-real`)]
  linkSync(path, real)
  const clients = new Set<Socket>()
  let held = false
  let entered = false
  let late: (() => void)[] = []
  const server = createServer((client) => {
    const broker = connect(real)
    let lines = 0
    clients.add(client)
    client.on('data', (data) => {
      if (held && data.includes('["enter"')) entered = true
      broker.write(data)
    })
    broker.on('data', (data) => {
      const first = lines === 0
      lines += 1
      if (held && !first) late.push(() => client.write(data))
      else client.write(data)
    })
    for (const [one, other] of [
      [client, broker],
      [broker, client],
    ] as const) {
      one.on('error', () => undefined)
      one.on('close', () => other.destroy())
    }
    client.on('close', () => clients.delete(client))
  })
  // In one step: a broker whose socket is missing makes another.
  await once(server.listen(join(directory, 'relay')), 'listening')
  renameSync(join(directory, 'relay'), path)
  return {
    hold() {
      held = true
    },
    cut() {
      late = []
      for (const client of clients) client.destroy()
    },
    get entered() {
      return entered
    },
    release() {
      held = false
      for (const send of late) send()
    },
    async close() {
      for (const client of clients) client.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

test('a wait that is given up between two connections keeps nothing that it was granted', async () => {
  const options = { directory: freshDirectory(), socket: 'file' } as const
  const broker = await start(options)
  const holder = await broker.acquire('x')
  const between = await relay(options.directory)
  const locks = createLocks(local(options))
  const stop = new AbortController()
  const waits = locks.mutex('x').acquire({ ttl: 600_000, wait: 600_000, signal: stop.signal })
  waits.catch(() => undefined)
  await until(async () => (await broker.waiters('x')) === 1)
  between.hold()
  await broker.release(holder)
  await until(async () => (await broker.waiters('x')) === 0)
  between.cut()
  await until(() => between.entered)
  stop.abort(new Error('given up'))
  await assert.rejects(waits, { message: 'given up' })
  assert.equal(await broker.tryAcquire('x'), undefined, 'it was granted')
  between.release()
  await until(() => broker.tryAcquire('x'))
  await locks.close()
  await between.close()
})

after(endAll)
after(leakCheck)
