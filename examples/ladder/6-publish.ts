/** Rung 6: a release is published. A waiter subscribes first, then tries, and retries when notified or when the holder's ttl must be over. */
import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { renewalsOver } from './4-watchdog.js'
import { enterAgain } from './5-reentrant.js'
import { byHand, type Lock, type Recipe, single } from './lock.js'
import { deleteAndTell } from './scripts.js'

export const publish: Recipe = single('publish', (client) => enterAgain(waitingByPush(client)))

function waitingByPush(client: Redis): Lock {
  const told = new EventEmitter().setMaxListeners(0)
  const ear = client.duplicate() // a subscribed connection can do nothing else
  ear.on('error', () => undefined)
  ear.on('message', (name) => told.emit(name))
  const renewals = renewalsOver(client)
  let closed = false

  const lock = byHand({
    async tryAcquire(name, ttl) {
      const id = randomUUID()
      if ((await client.set(name, id, 'PX', ttl, 'NX')) === null) return undefined
      renewals.start(name, id, ttl)
      return {
        release: () => {
          renewals.stop(id)
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
      renewals.stopAll()
      for (const name of told.eventNames()) told.emit(name)
      ear.disconnect()
    },
  })
  return lock
}
