import assert from 'node:assert/strict'
import { startUp, takeInChild } from './child-process.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { pause } from './test-context.js'

/** In an in-process store no client outlives the crash; a silent holder is the closest equivalent. */
export function crash(it: It, { traits, taker }: Fixture): void {
  if (!traits.shared) {
    it('of a task that never releases frees the lock after its ttl', async (stage) => {
      const [a, b] = [stage.client(), stage.client()]
      const name = stage.name()
      const lease = await a.locks.mutex(name).acquire({ ttl: stage.ttl, autoRenew: false })
      const next = await b.locks.mutex(name).acquire({ wait: 2 * stage.ttl + stage.patience })
      assert.equal(lease.isHeld, false)
      await next.release()
    })
    return
  }
  if (taker === undefined) {
    it('needs a fixture that says how a child process takes a lock', async () => {
      assert.fail('the driver is shared between processes, so its fixture must have a `taker`')
    })
    return
  }

  it('of a holder killed with -9 frees the lock for the next, with a greater token', async (stage) => {
    const client = stage.client()
    const name = stage.name()
    // The hold must last until the process is killed, even on a busy machine.
    const ttl = Math.max(stage.ttl, 2_000)
    const child = takeInChild(stage, taker, name, ttl)
    const { token } = await child.heard('granted')
    await stage.assertTaken(client, name)
    const next = client.locks.mutex(name).acquire({ wait: Number.POSITIVE_INFINITY })
    await stage.inLine(client, name, 1)
    await child.kill()
    const lease = await stage.soon('the lock of the dead to be free', next, 2 * ttl + stage.patience)
    assert.ok(lease.token > token, `token ${lease.token} came after ${token}`)
    await lease.release()
  })

  it('of a waiter killed with -9 does not hold up the one behind it', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const lease = await a.locks.mutex(name).acquire()
    const child = takeInChild(stage, taker, name, stage.ttl)
    await child.heard('waiting')
    await stage.inLine(a, name, 1)
    const next = b.locks.mutex(name).acquire({ wait: Number.POSITIVE_INFINITY })
    await stage.inLine(a, name, 2)
    await child.kill()
    await lease.release()
    const second = await stage.soon('the one behind the dead', next, 2 * stage.ttl + stage.patience)
    await second.release()
  })

  it('of a holder just as it releases leaves the lock free', async (stage) => {
    const client = stage.client()
    const name = stage.name()
    const child = takeInChild(stage, taker, name, stage.ttl)
    await child.heard('granted')
    child.send('release')
    await child.kill()
    const lease = await client.locks.mutex(name).acquire({ wait: 2 * stage.ttl + stage.patience })
    await lease.release()
  })

  it('is not what a pause is: a stopped holder that wakes up knows at once whether it still holds', async (stage) => {
    const client = stage.client()
    const name = stage.name()
    // If one client serves the others, this process must be the one: a stopped server would be a different test.
    await client.locks.mutex(stage.name()).run(() => undefined)
    const child = takeInChild(stage, taker, name, stage.ttl)
    const { token } = await child.heard('granted')
    child.process.kill('SIGSTOP')
    const next = client.locks
      .mutex(name)
      .acquire({ wait: 3 * stage.ttl + stage.patience })
      .catch(() => undefined)
    await pause(stage.ttl * 1.2)
    const lease = await next
    child.send('state')
    child.process.kill('SIGCONT')
    const { isHeld } = await child.heard('state')
    if (lease !== undefined) {
      assert.equal(isHeld, false, 'two holders')
      assert.ok(lease.token > token)
      await lease.release()
    } else assert.fail('a stopped process kept the lock beyond its ttl')
  })

  it('of a process that has just started leaves nothing', async (stage) => {
    const client = stage.client()
    const name = stage.name()
    for (let i = 0; i < 3; i++) {
      const child = takeInChild(stage, taker, name, stage.ttl)
      await child.heard('ready')
      await pause(i * 3)
      await child.kill()
      const lease = await client.locks.mutex(name).acquire({ wait: 2 * stage.ttl + stage.patience + startUp })
      await lease.release()
    }
  })
}
