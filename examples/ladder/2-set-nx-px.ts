/** Rung 2: SET NX PX takes the key and gives it an expiry in one command. The release simply deletes it. */
import { until } from '../../test/support/until.js'
import { openStage, patience } from './environment.js'
import { byHand, holders, type Recipe, type Scene, single, take } from './lock.js'

export const setNxPx: Recipe = single('SET NX PX, DEL', (client) =>
  byHand({
    async tryAcquire(name, ttl) {
      if ((await client.set(name, 'taken', 'PX', ttl, 'NX')) === null) return undefined
      return { release: () => client.del(name) } // whoever holds it by then
    },
  }),
)

export const wrongRelease: Scene = {
  name: 'wrong release',
  fault:
    'A holder is cut off for longer than its ttl, another takes over, and the first comes back and releases.',

  async run(recipe) {
    await using stage = await openStage(recipe)
    const [first, second, third] = [await stage.process(), await stage.process(), await stage.process()]

    // A single attempt must be answered within its ttl, even on a busy machine.
    const held = await take(first.lock, 3_000)
    first.cable.blackHole()
    await until(() => second.lock.tryAcquire('order:7', 30_000), {
      within: patience,
      what: 'the lease of the one cut off to end',
    })
    first.cable.heal()
    await held.release()

    return holders(await third.lock.tryAcquire('order:7', 30_000))
  },
}
