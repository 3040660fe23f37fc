/** Rung 1: SETNX takes the key, EXPIRE makes sure that it does not stay forever. These are two commands, and anything can happen between them. */
import { startProxy } from '../../test/support/proxy.js'
import { until } from '../../test/support/until.js'
import { openStage, patience } from './environment.js'
import { startHolder } from './holder.js'
import { byHand, type Recipe, type Scene, single } from './lock.js'

export const setnxExpire: Recipe = single('SETNX, EXPIRE', (client) =>
  byHand({
    async tryAcquire(name, ttl) {
      if ((await client.setnx(name, 'taken')) === 0) return undefined
      await client.pexpire(name, ttl) // a holder that dies before this line locks everybody out
      return { release: () => client.del(name) }
    },
  }),
)

export const crash: Scene = {
  name: 'crash',
  fault: 'The holder is killed (-9) as soon as its lock is taken, before whatever it would send next.',

  async run(recipe) {
    await using stage = await openStage(recipe)
    await using cable = await startProxy({ port: stage.server.port })
    cable.up.hold((bytes) => /^\*3\r\n\$7\r\npexpire\r\n|work:begun/i.test(bytes.toString()))
    await using holder = startHolder('crash', recipe, stage.server, [cable.port], 300)
    await holder.unlessDead(cable.up.holding())
    await holder.kill()
    cable.up.drop()
    const next = await stage.process()

    const held = await until(
      async () =>
        (await next.lock.tryAcquire('order:7', 30_000)) ??
        // There is a key, and it has no expiry: nothing will ever remove it.
        ((await stage.server.cli('PTTL', 'order:7')) === -1 && 'never'),
      { within: patience, what: 'the lock of a dead holder to be free' },
    )
    if (held === 'never') return { ok: false, saw: 'taken for ever: the key has no expiry' }
    await held.release()
    return { ok: true, saw: 'free again once the ttl of 300 ms was over' }
  },
}
