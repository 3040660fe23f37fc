/** Rung 6: a release is published. Who waits listens first, then tries, and tries again when told, or when the holder's ttl must be over. */
import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { until } from '../../test/support/until.js'
import { keepAlive } from './4-watchdog.js'
import { enterAgain } from './5-reentrant.js'
import { byHand, type Lock, type Recipe, type Scene, single, take } from './lock.js'
import { deleteAndTell } from './scripts.js'
import { asked, listening, openStage, patience } from './stage.js'

export const publish: Recipe = single('publish', (client) => enterAgain(waitingByPush(client)))

function waitingByPush(client: Redis): Lock {
  const told = new EventEmitter().setMaxListeners(0)
  const ear = client.duplicate() // a connection that listens can do nothing else
  ear.on('error', () => undefined)
  ear.on('message', (name) => told.emit(name))
  let closed = false

  const lock = byHand({
    async tryAcquire(name, ttl) {
      const id = randomUUID()
      if ((await client.set(name, id, 'PX', ttl, 'NX')) === null) return undefined
      const stop = keepAlive(client, name, id, ttl)
      return {
        release: () => {
          stop()
          return client.eval(deleteAndTell, 1, name, id)
        },
      }
    },
    async acquire(name, ttl, wait) {
      const deadline = performance.now() + wait
      await ear.subscribe(name)
      for (;;) {
        const free = new AbortController()
        told.once(name, () => free.abort()) // before trying, so that no message is missed in between
        const [held, theirs] = await Promise.all([lock.tryAcquire(name, ttl), client.pttl(name)])
        if (held !== undefined || closed || performance.now() > deadline) return held
        const left = Math.min(theirs, deadline - performance.now())
        await pause(left, undefined, { signal: free.signal }).catch(() => undefined)
      }
    },
    async close() {
      closed = true
      for (const name of told.eventNames()) told.emit(name)
      ear.disconnect()
    },
  })
  return lock
}

const waiters = 16

export const herd: Scene = {
  name: 'herd',
  fault: `${waiters} processes wait, and the lock goes from one to the next until each has had it. What does one hand-over cost?`,

  async run(recipe) {
    await using stage = await openStage(recipe)
    const { server } = stage
    const holder = await stage.process()
    const others = await Promise.all(Array.from({ length: waiters }, () => stage.process()))

    const held = await take(holder.lock, 30_000)
    const before = await asked(server)
    const turns = others.map(async ({ lock }) => (await lock.acquire('order:7', 30_000, patience))?.release())
    const allWait = async () =>
      (await listening(server)) === waiters && (await asked(server)) >= before + waiters
    await until(allWait, { within: patience })
    const since = await asked(server)
    await held.release()
    await Promise.all(turns)
    const each = ((await asked(server)) - since) / waiters

    return { ok: each <= 4, saw: `${each.toFixed(1)} commands for each hand-over with ${waiters} waiting` }
  },
}
