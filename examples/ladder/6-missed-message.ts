/** Rung 6 again: a published message reaches only the current subscribers, and nobody later. */
import { until } from '../../test/support/until.js'
import { answering, asked, elapsed, listening, openStage, patience } from './environment.js'
import { type Scene, take } from './lock.js'

export const missedMessage: Scene = {
  name: 'missed message',
  fault: "The waiter's connections break, the lock is released, and the connections come back.",

  async run(recipe) {
    await using stage = await openStage(recipe)
    const { server } = stage
    const [holder, waiter] = [await stage.process(), await stage.process()]

    const held = await take(holder.lock, 30_000)
    const before = await asked(server)
    let entered = false
    const waiting = waiter.lock.acquire('order:7', 30_000, 60_000).then(
      () => {
        entered = true
      },
      () => undefined, // the scene is over
    )
    const isWaiting = async () => (await listening(server)) === 1 && (await asked(server)) > before
    await until(isWaiting, { within: patience })
    await answering([waiter.client]) // it knows that the lock is taken

    waiter.cable.refuse()
    waiter.cable.reset()
    await until(async () => (await listening(server)) === 0, { within: patience })
    await held.release()
    await waiter.cable.accept()
    await until(async () => (await listening(server)) === 1, { within: patience })

    // It is connected and subscribed, the lock is free, and nobody will publish anything more.
    await Promise.race([waiting, elapsed(5_000)])
    return entered
      ? { ok: true, saw: 'entered when its connections were back' }
      : { ok: false, saw: 'asleep before a free lock, for what was left of the ttl of 30 s' }
  },
}
