/** Rung 7 again: a server that votes twice, because it has forgotten its first vote. */

import { answering, openStage } from './environment.js'
import { holdersAfterLoss, type Scene, take } from './lock.js'

export const forgetfulServer: Scene = {
  name: 'forgetful server',
  fault:
    'One server cannot be reached by the holder, another votes for it, is restarted and has forgotten that it did.',

  async run(recipe) {
    await using stage = await openStage(recipe)
    const [first, second] = [await stage.process(), await stage.process()]
    const [, forgetful] = stage.servers
    first.cables[2]?.blackHole()

    await take(first.lock, 30_000)
    await forgetful?.kill9()
    await forgetful?.restart({ keepData: false })
    await answering(second.clients)

    return await holdersAfterLoss(second.lock)
  },
}
