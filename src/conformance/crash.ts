import assert from 'node:assert/strict'
import { acquireInChild, startUp } from './child-process.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { pause } from './test-context.js'

/** In an in-process store no client outlives the crash; a silent holder is the closest equivalent. */
export function crash(it: It, { traits, childClient }: Fixture): void {
  if (!traits.shared) {
    it('of a task that never releases frees the lock after its ttl', async (context) => {
      const [a, b] = [context.client(), context.client()]
      const name = context.name()
      const lease = await a.locks.mutex(name).acquire({ ttl: context.ttl, autoRenew: false })
      const next = await b.locks.mutex(name).acquire({ wait: 2 * context.ttl + context.timeout })
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

  it('of a holder killed with -9 frees the lock for the next, with a greater token', async (context) => {
    const client = context.client()
    const name = context.name()
    // The hold must last until the process is killed, even on a busy machine.
    const ttl = Math.max(context.ttl, 2_000)
    const child = acquireInChild(context, childClient, name, ttl)
    const { token } = await child.received('granted')
    await context.assertHeld(client, name)
    const next = client.locks.mutex(name).acquire({ wait: Number.POSITIVE_INFINITY })
    await context.queued(client, name, 1)
    await child.kill()
    const lease = await context.settlesInTime(
      'the lock of the dead to be free',
      next,
      2 * ttl + context.timeout,
    )
    assert.ok(lease.token > token, `token ${lease.token} came after ${token}`)
    await lease.release()
  })

  it('of a waiter killed with -9 does not hold up the one behind it', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lease = await a.locks.mutex(name).acquire()
    const child = acquireInChild(context, childClient, name, context.ttl)
    await child.received('waiting')
    await context.queued(a, name, 1)
    const next = b.locks.mutex(name).acquire({ wait: Number.POSITIVE_INFINITY })
    await context.queued(a, name, 2)
    await child.kill()
    await lease.release()
    const second = await context.settlesInTime(
      'the one behind the dead',
      next,
      2 * context.ttl + context.timeout,
    )
    await second.release()
  })

  it('of a holder just as it releases leaves the lock free', async (context) => {
    const client = context.client()
    const name = context.name()
    const child = acquireInChild(context, childClient, name, context.ttl)
    await child.received('granted')
    child.send('release')
    await child.kill()
    const lease = await client.locks.mutex(name).acquire({ wait: 2 * context.ttl + context.timeout })
    await lease.release()
  })

  it('is not what a pause is: a stopped holder that wakes up knows at once whether it still holds', async (context) => {
    const client = context.client()
    const name = context.name()
    // If one client serves the others, this process must be the one: a stopped server would be a different test.
    await client.locks.mutex(context.name()).run(() => undefined)
    const child = acquireInChild(context, childClient, name, context.ttl)
    const { token } = await child.received('granted')
    child.process.kill('SIGSTOP')
    const next = client.locks
      .mutex(name)
      .acquire({ wait: 3 * context.ttl + context.timeout })
      .catch(() => undefined)
    await pause(context.ttl * 1.2)
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

  it('of a process that has just started leaves nothing', async (context) => {
    const client = context.client()
    const name = context.name()
    for (let i = 0; i < 3; i++) {
      const child = acquireInChild(context, childClient, name, context.ttl)
      await child.received('ready')
      await pause(i * 3)
      await child.kill()
      const lease = await client.locks
        .mutex(name)
        .acquire({ wait: 2 * context.ttl + context.timeout + startUp })
      await lease.release()
    }
  })
}
