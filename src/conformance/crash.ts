import assert from 'node:assert/strict'
import { acquireInChild, startUp } from './child-process.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { pause } from './test-context.js'

/** In an in-process store no client outlives the crash; a silent holder is the closest equivalent. */
export function crash(it: It, { traits, childClient }: Fixture): void {
  if (!traits.shared) {
    it('of a task that never releases frees the lock after its ttl', async (stage) => {
      const [a, b] = [stage.client(), stage.client()]
      const name = stage.name()
      const lease = await a.locks.mutex(name).acquire({ ttl: stage.ttl, autoRenew: false })
      const next = await b.locks.mutex(name).acquire({ wait: 2 * stage.ttl + stage.timeout })
      assert.equal(lease.isHeld, false)
      await next.release()
    })
    return
  }
  if (childClient === undefined) {
    it('needs a fixture that says how a child process takes a lock', async () => {
      assert.fail('the driver is shared between processes, so its fixture must have a `childClient`')
    })
    return
  }

  it('of a holder killed with -9 frees the lock for the next, with a greater token', async (stage) => {
    const client = stage.client()
    const name = stage.name()
    // The hold must last until the process is killed, even on a busy machine.
    const ttl = Math.max(stage.ttl, 2_000)
    const child = acquireInChild(stage, childClient, name, ttl)
    const { token } = await child.received('granted')
    await stage.assertTaken(client, name)
    const next = client.locks.mutex(name).acquire({ wait: Number.POSITIVE_INFINITY })
    await stage.queued(client, name, 1)
    await child.kill()
    const lease = await stage.settlesInTime('the lock of the dead to be free', next, 2 * ttl + stage.timeout)
    assert.ok(lease.token > token, `token ${lease.token} came after ${token}`)
    await lease.release()
  })

  it('of a waiter killed with -9 does not hold up the one behind it', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const lease = await a.locks.mutex(name).acquire()
    const child = acquireInChild(stage, childClient, name, stage.ttl)
    await child.received('waiting')
    await stage.queued(a, name, 1)
    const next = b.locks.mutex(name).acquire({ wait: Number.POSITIVE_INFINITY })
    await stage.queued(a, name, 2)
    await child.kill()
    await lease.release()
    const second = await stage.settlesInTime('the one behind the dead', next, 2 * stage.ttl + stage.timeout)
    await second.release()
  })

  it('of a holder just as it releases leaves the lock free', async (stage) => {
    const client = stage.client()
    const name = stage.name()
    const child = acquireInChild(stage, childClient, name, stage.ttl)
    await child.received('granted')
    child.send('release')
    await child.kill()
    const lease = await client.locks.mutex(name).acquire({ wait: 2 * stage.ttl + stage.timeout })
    await lease.release()
  })

  it('is not what a pause is: a stopped holder that wakes up knows at once whether it still holds', async (stage) => {
    const client = stage.client()
    const name = stage.name()
    // If one client serves the others, this process must be the one: a stopped server would be a different test.
    await client.locks.mutex(stage.name()).run(() => undefined)
    const child = acquireInChild(stage, childClient, name, stage.ttl)
    const { token } = await child.received('granted')
    child.process.kill('SIGSTOP')
    const next = client.locks
      .mutex(name)
      .acquire({ wait: 3 * stage.ttl + stage.timeout })
      .catch(() => undefined)
    await pause(stage.ttl * 1.2)
    const lease = await next
    child.send('state')
    child.process.kill('SIGCONT')
    const { isHeld } = await child.received('state')
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
      const child = acquireInChild(stage, childClient, name, stage.ttl)
      await child.received('ready')
      await pause(i * 3)
      await child.kill()
      const lease = await client.locks.mutex(name).acquire({ wait: 2 * stage.ttl + stage.timeout + startUp })
      await lease.release()
    }
  })
}
