/**
 * Tests of pools.
 * Long because a pool's guarantees while its size, its holders and its being open change are read together.
 */
import assert from 'node:assert/strict'
import type { Lease } from 'holdfast'
import { acquireInChild } from './child-process.js'
import { beforeInspect, type Client, getCells } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import type { TestContext } from './test-context.js'

const forEver = { wait: Number.POSITIVE_INFINITY }

const kinds = {
  'give no more permits than there are, whatever they weigh': async (context, a) => {
    const clients = [a, context.client(), context.client()]
    const name = context.name()
    let taken = 0
    let most = 0
    const worker = async ({ locks }: Client, i: number) => {
      const permits = (i % 3) + 1
      const lease = await locks.pool(name, { permits: 4 }).acquire({ permits, ...forEver })
      taken += permits
      most = Math.max(most, taken)
      await new Promise(setImmediate)
      taken -= permits
      await lease.release()
    }
    await Promise.all(clients.flatMap((client, c) => [0, 1, 2].map((i) => worker(client, c + i))))
    assert.ok(most <= 4, `${most} of 4 permits were taken at once`)
    assert.deepEqual(await a.locks.pool(name, { permits: 4 }).holders(), [])
  },

  'grow and shrink while they are used': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    const [mine, theirs] = [a.locks.pool(name, { permits: 1 }), b.locks.pool(name, { permits: 1 })]
    await context.connected(b)
    const one = await mine.acquire({ note: 'one' })
    assert.equal(await theirs.tryAcquire(), undefined)
    const waits = theirs.acquire({ permits: 2, note: 'two', ...forEver })
    await mine.resize(3)
    const two = await context.settlesInTime('the pool to have grown', waits)
    assert.equal(await theirs.size(), 3)
    assert.deepEqual(
      (await mine.holders()).map(({ permits, note }) => [permits, note]),
      [
        [1, 'one'],
        [2, 'two'],
      ],
    )
    await theirs.resize(1)
    assert.ok(one.isHeld && two.isHeld, 'holders keep what they have')
    await one.release()
    assert.equal(await mine.tryAcquire(), undefined, 'two are still taken of one')
    await two.release()
    const again = await mine.acquire()
    assert.equal(await theirs.tryAcquire(), undefined)
    await again.release()
  },

  'serve in order of arrival, so that a large request is not starved': async (context, a) => {
    const [b, c, name] = [context.client(), context.client(), context.name()]
    const poolOf = ({ locks }: Client) => locks.pool(name, { permits: 2 })
    await context.connected(c)
    const first = await poolOf(a).acquire()
    const served: string[] = []
    const large = poolOf(b)
      .acquire({ permits: 2, ...forEver })
      .then((lease) => {
        served.push('large')
        return lease
      })
    await context.until('it to stand there', async () => (await queueLength(a, name)) === 2)
    assert.equal(await poolOf(c).tryAcquire(), undefined, 'it would overtake')
    const small = poolOf(c)
      .acquire(forEver)
      .then((lease) => {
        served.push('small')
        return lease
      })
    await context.until('it to stand there', async () => (await queueLength(a, name)) === 3)
    await first.release()
    await (await large).release()
    await (await small).release()
    assert.deepEqual(served, ['large', 'small'])
  },

  'are closed for every client: waiters are refused, holders go on, and closing ends when all permits are returned':
    async (context, a) => {
      const [b, name] = [context.client(), context.name()]
      const [mine, theirs] = [a.locks.pool(name, { permits: 2 }), b.locks.pool(name, { permits: 2 })]
      const closed = { name: 'PoolClosedError', code: 'POOL_CLOSED', lock: name }
      const lease = await mine.acquire()
      const waits = theirs.acquire({ permits: 2, ...forEver })
      waits.catch(() => undefined)
      await context.until('it to stand there', async () => (await queueLength(a, name)) === 2)
      const draining = mine.close(forEver)
      await assert.rejects(context.settlesInTime('to hear that it is closed', waits), closed)
      await assert.rejects(theirs.acquire(), closed)
      await assert.rejects(mine.tryAcquire(), closed)
      assert.equal(await theirs.close({ wait: 0 }), false, 'one permit is out')
      lease.assertHeld()
      await lease.release()
      assert.equal(await context.settlesInTime('all to be back', draining), true)
      assert.equal(await theirs.close(), true, 'it is closed already')
      await theirs.resize(3)
      await assert.rejects(mine.acquire(), closed)
      await theirs.open()
      const three = await mine.acquire({ permits: 3 })
      await three.release()
      assert.equal(await theirs.delete(), true)
    },

  'are closed although a holder is cut off, and are not drained when they are opened meanwhile': async (
    context,
    a,
  ) => {
    const [b, name] = [context.client(), context.name()]
    const pool = b.locks.pool(name, { permits: 1 })
    await context.connected(a, b)
    const stays = await pool.acquire()
    const draining = pool.close(forEver)
    await context.until('it to be closed', async () => (await readState(b, name))?.closed === true)
    await pool.open()
    assert.equal(await context.settlesInTime('to hear that it was opened', draining), false)
    await stays.release()
    const ttl = context.momentary
    const lease = await a.locks.pool(name, { permits: 1 }).acquire({ ttl })
    await context.cut(a)
    assert.equal(await pool.close({ wait: 2 * ttl + context.timeout }), true)
    assert.equal(lease.isHeld, false, 'it was said to be drained while a permit was out')
    assert.equal(await pool.delete(), true)
  },

  'are not drained while later holders remain': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    const [mine, theirs] = [a.locks.pool(name, { permits: 1 }), b.locks.pool(name, { permits: 1 })]
    const first = await theirs.acquire()
    let second: Lease | undefined
    assert.equal(await mine.close({ wait: 0 }), false)
    beforeInspect(
      a,
      async () => {
        await theirs.open()
        await theirs.resize(2)
        second = await theirs.acquire()
        await theirs.close({ wait: 0 })
        await first.release()
      },
      1,
    )
    assert.equal(await mine.close({ wait: 0 }), false, 'it was said to be drained while a permit was out')
    await second?.release()
    assert.equal(await mine.close(), true)
    assert.equal(await mine.delete(), true)
  },

  'are deleted, but not while somebody uses them': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    const [mine, theirs] = [a.locks.pool(name, { permits: 2 }), b.locks.pool(name, { permits: 2 })]
    await mine.resize(5)
    const lease = await mine.acquire()
    assert.equal(await theirs.delete(), false)
    assert.equal(await theirs.size(), 5)
    await lease.release()
    assert.equal(await theirs.delete(), true)
    assert.equal(await readState(a, name), undefined)
    assert.equal(await mine.size(), 2, 'it is as if it had never been')
    await mine.close()
    assert.equal(await theirs.delete(), true)
    await (await mine.acquire()).release()
    assert.equal(await mine.delete(), true)
    assert.equal(await mine.delete(), true, 'there is none')
  },

  'recover the permits of a member that is cut off': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    await context.connected(a, b)
    const ttl = context.momentary
    const lease = await a.locks.pool(name, { permits: 1 }).acquire({ ttl })
    await context.cut(a)
    const next = await b.locks.pool(name, { permits: 1 }).acquire({ wait: 2 * ttl + context.timeout })
    assert.equal(lease.isHeld, false, 'two holders of one permit')
    await next.release()
  },

  'refuse requests beyond maxPending, until a waiting one has ended': async (context, a) => {
    const name = context.name()
    const pool = a.locks.pool(name, { permits: 1, maxPending: 2, ...forEver })
    const tooMany = { code: 'TOO_MANY_WAITERS', lock: name, maxPending: 2 }
    const lease = await pool.acquire()
    const stop = new AbortController()
    const [first, gone] = [pool.acquire(), pool.acquire({ signal: stop.signal })]
    gone.catch(() => undefined)
    await context.until('both to stand there', async () => (await queueLength(a, name)) === 3)
    await assert.rejects(pool.acquire(), tooMany)
    await assert.rejects(pool.acquire({ maxPending: 0 }), /maxPending must be a whole number from 1/)
    assert.equal(await pool.tryAcquire(), undefined, 'a single attempt does not wait, and is not refused')
    stop.abort(new Error('gone'))
    await assert.rejects(gone, { message: 'gone' })
    const second = pool.acquire({ maxPending: 2 })
    await assert.rejects(pool.acquire(), tooMany)
    await lease.release()
    for (const next of [first, second]) await (await context.settlesInTime('its permit', next)).release()
  },

  'refuse invalid arguments, and wait no longer than `wait`': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    assert.throws(() => a.locks.pool(name, { permits: 0 }), /from 1 to 1000000, got 0/)
    const mine = a.locks.pool(name, { permits: 1 })
    await assert.rejects(mine.resize(0.5), RangeError)
    await context.connected(b)
    const lease = await mine.acquire()
    assert.equal(await b.locks.pool(name, { permits: 1 }).tryAcquire(), undefined)
    // Whether its wait expires before or after it is queued, the error names the pool.
    await assert.rejects(
      b.locks.pool(name, { permits: 1 }).acquire({ wait: 400 }),
      /1 permits of pool .* not free within/,
    )
    await lease.release()
    await (await b.locks.pool(name, { permits: 1 }).acquire({ wait: context.timeout })).release()
    const mutex = await a.locks.mutex(name).acquire()
    assert.equal(await b.locks.pool(name, { permits: 1 }).tryAcquire(), undefined, 'a mutex is in the way')
    await mutex.release()
  },
} satisfies Record<string, (context: TestContext, client: Client) => Promise<void>>

export function pools(it: It, { traits, childClient }: Fixture): void {
  if (traits.cells !== true || !traits.modes.includes('shared')) {
    it('are refused when they are made', async (context) => {
      const { locks } = context.client()
      assert.throws(() => locks.pool(context.name(), { permits: 2 }), { code: 'UNSUPPORTED' })
    })
    return
  }
  for (const [name, test] of Object.entries(kinds)) it(name, (context) => test(context, context.client()))
  if (!traits.shared || childClient === undefined) return

  it('take back the permits of a process that was killed with -9', async (context) => {
    const client = context.client()
    const { locks } = client
    const name = context.name()
    // It must still hold when the other client tries, even on a busy machine.
    const ttl = Math.max(context.ttl, 2_000)
    const child = acquireInChild(context, childClient, name, ttl, 'pool')
    await context.connected(client)
    await child.received('granted')
    assert.equal(await locks.pool(name, { permits: 1 }).tryAcquire(), undefined)
    await child.kill()
    const wait = 2 * ttl + context.timeout
    await (await locks.pool(name, { permits: 1 }).acquire({ wait })).release()
  })
}

/** Number of entries that hold permits or are queued: a client that has only its lease may be overtaken by one with faster messages. */
async function queueLength(client: Client, name: string): Promise<number> {
  return (await readState(client, name))?.line.length ?? 0
}

/** The stored state of a pool. */
async function readState(
  client: Client,
  name: string,
): Promise<{ readonly line: readonly unknown[]; readonly closed?: boolean } | undefined> {
  const cell = await getCells(client).read(`pool:${name}`, new AbortController().signal)
  return cell && JSON.parse(cell.value)
}
