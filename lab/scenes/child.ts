/** A player that is a process of its own, so that it can be killed or paused. */

import { recorderTo, type SentEntry } from './history.js'
import { holdfastRedis, holdfastRedlock } from './holdfast-locks.js'
import { sceneTimeout } from './lock.js'
import { plainLocks } from './naive-redis-locks.js'
import { connect, type Part } from './redis-scene.js'

// It must not outlive the process that started it.
process.on('disconnect', () => process.exit())

const { role, way: title, ports, ttl } = JSON.parse(process.argv[2] ?? '{}') as Part
const way = [...plainLocks, holdfastRedis, holdfastRedlock].find((one) => one.title === title)
if (way === undefined) throw new Error(`no lock is called ${title}`)
const clients = ports.map(connect)
const [client] = clients
if (client === undefined) throw new Error('no server was given')
const recorder = recorderTo(`child ${process.pid}`, (t, { until, ...entry }) => {
  const sent: SentEntry = { ...entry, t: `${t}`, ...(until !== undefined && { until: `${until}` }) }
  process.send?.(sent)
})
const lock = way.open(clients, recorder)

const held = await lock.take('order:7', ttl, sceneTimeout)
if (held === undefined) throw new Error('the lock could not be acquired')
if (role === 'pause') {
  if (!held.isHeld) throw new Error('the lease was over before the work began')
  // The check has been made, the write has not. Here a process may be paused by a garbage collection, a busy machine, a closed lid.
  // Its earlier output is sent first.
  await new Promise<void>((resolve) => process.send?.({ ready: true }, () => resolve()))
  process.kill(process.pid, 'SIGSTOP')
  process.send?.({ wrote: await way.write(client, 'older', held) })
}
