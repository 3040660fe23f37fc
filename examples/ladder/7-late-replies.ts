/** Rung 7 again: the servers' replies take longer than the ttl. When does the ttl start? */
import { until } from '../../test/support/until.js'
import { openStage, patience } from './environment.js'
import { holders, type Scene } from './lock.js'

export const lateReplies: Scene = {
  name: 'late replies',
  fault: "The servers' answers arrive when the ttl they grant is over and the lock is another's.",

  async run(recipe) {
    await using stage = await openStage(recipe)
    const [first, second] = [await stage.process(), await stage.process()]

    for (const cable of first.cables) cable.down.hold()
    const asking = first.lock.tryAcquire('order:7', 300).catch(() => undefined)
    await Promise.all(first.cables.map((cable) => cable.down.holding()))
    await until(() => second.lock.tryAcquire('order:7', 30_000), {
      within: patience,
      what: 'the lease whose grant is on its way to end',
    })
    for (const cable of first.cables) cable.down.pass()
    const late = await asking

    return holders(late)
  },
}
