/** Rung 6 again, and every rung below it: the server has executed the command, and the reply is lost. */

import { openStage } from './environment.js'
import type { Scene } from './lock.js'

export const lostReply: Scene = {
  name: 'lost reply',
  fault: 'The server takes the lock for a process, and the connection breaks before the reply arrives.',

  async run(recipe) {
    await using stage = await openStage(recipe)
    const [first, second] = [await stage.process(), await stage.process()]
    const { cable } = first

    cable.down.hold()
    const asking = first.lock.tryAcquire('order:7', 30_000)
    await cable.down.holding() // the server has replied
    cable.down.drop()
    cable.heal() // resets the connection; the client connects again, and repeats the command by itself
    const held = await asking
    await held?.release()
    const next = await second.lock.tryAcquire('order:7', 30_000)

    const told = `told that it ${held ? 'has it' : 'is taken'}`
    const then = next ? 'free again after its release' : 'unavailable for the whole ttl of 30 s'
    return { ok: held !== undefined && next !== undefined, saw: `${told}; ${then}` }
  },
}
