/** The child of `holder.ts`. */
import { write } from './8-fencing.js'
import { connect, patience } from './environment.js'
import type { Part } from './holder.js'
import { recipes } from './recipes.js'

// It must not outlive the process that started it.
process.on('disconnect', () => process.exit())

const { role, recipe: title, ports, ttl } = JSON.parse(process.argv[2] ?? '{}') as Part
const recipe = recipes.find((one) => one.title === title)
if (recipe === undefined) throw new Error(`no lock is called ${title}`)
const clients = ports.map(connect)
const lock = recipe.open(...clients)
const [client] = clients as [(typeof clients)[0] & object]

const held = await lock.acquire('order:7', ttl, patience)
if (held === undefined) throw new Error('the lock could not be acquired')

if (role === 'crash') {
  await client.set('work:begun', 'yes') // never answered
} else {
  if (held.isHeld === false) throw new Error('the lease was over before the work began')
  // The check has been made, the write has not. Here a process may be paused by a garbage collection, a busy machine, a closed lid.
  process.kill(process.pid, 'SIGSTOP')
  const answer = await write(recipe, client, 'written by the one who slept', held)
  process.send?.(answer)
}
