/** Rung 3: each attempt has an id of its own, and only the attempt whose id is there deletes the key: one script, not two commands. */
import { randomUUID } from 'node:crypto'
import { until } from '../../test/support/until.js'
import { openStage, patience } from './environment.js'
import { byHand, type Recipe, type Scene, single } from './lock.js'
import { deleteIfMine } from './scripts.js'

export const compareAndDelete: Recipe = single('compare-and-delete', (client) =>
  byHand({
    async tryAcquire(name, ttl) {
      const id = randomUUID()
      if ((await client.set(name, id, 'PX', ttl, 'NX')) === null) return undefined
      return { release: () => client.eval(deleteIfMine, 1, name, id) }
    },
  }),
)

/** Long compared with the pauses of a busy machine, so that a renewal every third of it is in time. */
const ttl = 2_000

export const longWork: Scene = {
  name: 'long work',
  fault:
    'The work takes twice the ttl, and meanwhile another process has the same work to do: add one to a number.',

  async run(recipe) {
    await using stage = await openStage(recipe)
    const [first, second] = [await stage.process(), await stage.process()]
    let points = 0
    let inside = ''

    const slowly = first.lock.run('points:42', ttl, 0, async () => {
      inside = 'first'
      const seen = points
      const end = performance.now() + 2 * ttl
      await until(() => performance.now() > end || inside === 'second', { within: patience })
      points = seen + 1
    })
    await until(() => inside === 'first', { within: patience })
    const quickly = second.lock.run('points:42', ttl, patience, async () => {
      points += 1
      inside = 'second'
    })

    await Promise.all([slowly, quickly])
    return { ok: points === 2, saw: `2 were added, the number grew by ${points}` }
  },
}
