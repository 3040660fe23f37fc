/** Rung 6 again: a message to everybody, about a lock that only one can get. */
import { until } from '../../test/support/until.js'
import { asked, listening, openStage, patience } from './environment.js'
import { type Scene, take } from './lock.js'

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

    return { ok: each <= 6, saw: `${each.toFixed(1)} commands for each hand-over with ${waiters} waiting` }
  },
}
