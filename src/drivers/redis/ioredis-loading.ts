/**
 * After a restart a server loads its data, and ioredis is not ready before the server serves. It asks the server how long that will take, and asks again only then, ten
 * seconds later at most (`maxLoadingRetryTime`). The estimate can be far too long, and all that time no lease is renewed. So the driver asks, too,
 * and has the client connect anew as soon as the server serves.
 */
import type { Clock } from '../../core/clock.js'
import { onAll } from './events.js'
import type { Full } from './ioredis.js'
import { reconnect } from './ioredis-subscription.js'

/** How often a server that loads its data is asked whether it serves, in ms. */
const askAgain = 250

/** Returns a function that stops it. */
export function retrySooner(client: Full, clock: Clock): () => void {
  // Not at the first connection: breaking that would fail the caller's `connect()`.
  let wasReady = client.status === 'ready'
  let disarm = () => {}
  let connection = 0
  const later = (loading: boolean) => {
    const asked = connection
    const ask = async () => {
      const info = await client.info('persistence')
      if (asked !== connection) return
      if (/\r\nloading:1/.test(info)) later(true)
      // Only a client that waits for the loading to end. Another one may be slow to shake hands.
      else if (loading) reconnect(client, 'connect')
    }
    disarm = clock.at(clock.now() + askAgain, () => void ask().catch(() => undefined), { ref: false })
  }
  const over = () => {
    connection++
    disarm()
  }
  const stop = onAll(client, {
    connect: () => {
      over()
      if (wasReady) later(false)
    },
    ready: () => {
      over()
      wasReady = true
    },
    close: over,
    end: () => {
      wasReady = false
    },
  })
  return () => {
    over()
    stop()
  }
}
