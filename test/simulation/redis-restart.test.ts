// A simulated server that restarts: its connections end with it, and a client that connects at that instant is served by the new one.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { makeProcess } from '../../lab/simulation/process.js'
import { type Machine, startMachine } from '../../lab/simulation/stores/redis/machine.js'
import { redisStore } from '../../lab/simulation/stores/redis/store.js'
import { makeWorld } from '../../lab/simulation/world.js'
import { createLocksIn } from '../support/inside.js'
import { leakCheck } from '../support/leaks.js'

let machine: Machine
before(async () => {
  machine = await startMachine()
})
after(() => machine.close())

const connects = ['before the server restarts', 'when it has just restarted'] as const

for (const when of connects) {
  test(`a process that connects during a restart gets a reply: ${when}`, async () => {
    for (let seed = 0; seed < 10; seed++) {
      const world = makeWorld(seed)
      const store = redisStore(machine, undefined, false).make(world)
      const process = makeProcess(world, 0, 1, seed)
      let said: unknown
      const connect = () => {
        const locks = createLocksIn(process.env, store.driver(process))
        locks.inspect('lock').then(
          (status) => {
            said = status
          },
          (error) => {
            said = error
          },
        )
      }
      const restart = () => store.faults.restart?.(0, process)
      world.at(50, () => {
        if (when === connects[0]) connect()
        restart()
        if (when === connects[1]) connect()
      })
      const ended = await world.run(() => said !== undefined, 60_000)
      assert.equal(ended, 'done', `seed ${seed}: nobody answers`)
      assert.ok(!(said instanceof Error), `seed ${seed}: ${said}`)
      store.end?.()
    }
  })
}

after(leakCheck)
