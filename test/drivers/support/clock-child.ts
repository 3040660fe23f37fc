// A process whose wall clock is set while it holds one lock and waits for another. See clock-jumps.ts.
import { createLocks } from '../../../src/create-locks.js'
import type { ClockTask, FromClockChild } from './clock-jumps.js'

const { module, args, held, awaited, ttl } = JSON.parse(process.argv[2] ?? '') as ClockTask
const say = (message: FromClockChild) => process.send?.(message)
const locks = createLocks((await import(module)).make(...args))
process.on('disconnect', () => process.exit(0))
locks.on('lost', () => say({ is: 'lost' }))
locks.on('renewed', ({ name }) => {
  if (name === held) say({ is: 'renewed', wall: Date.now() })
})
const lease = await locks.mutex(held).acquire({ ttl })
say({ is: 'held' })
const { token } = await locks.mutex(awaited).acquire({ ttl, wait: Number.POSITIVE_INFINITY })
say({ is: 'granted', token, stillHeld: lease.isHeld })
