import assert from 'node:assert/strict'
import { createLocks, type Lease } from 'holdfast'
import type { Driver, Env } from 'holdfast/driver'
import type { Fixture } from './fixture.js'
import { passLimit } from './pass-limit.js'
import type { It } from './suite.js'
import { block, pause } from './test-context.js'

/** Three hundred sections may take longer than the default wait. */
const patient = { wait: Number.POSITIVE_INFINITY }

export function fairness(it: It, { make, traits }: Fixture): void {
  if (traits.fair) {
    it('with `fair: true` keeps its turn when the event loop is blocked as the grant arrives', async (context) => {
      const holder = context.client()
      const name = context.name()
      const ttl = Math.max(context.ttl, 4_000)
      const factory = make()
      const slow = createLocks((env) => stalling(factory(env), name, env.clock))
      context.cleanup(() => slow.close())
      await context.connected(holder)
      const lease = await holder.locks.mutex(name).acquire({ fair: true })
      const served: string[] = []
      const first = slow.mutex(name).run(
        (mine) => {
          // If a session bounds the ttl, its heartbeats extend every lease by themselves.
          const fresh = traits.maxTtl !== undefined || mine.remaining() >= 0.9 * mine.ttl
          served.push(`first, ${fresh ? 'fresh' : mine.remaining()}`)
        },
        { fair: true, ttl },
      )
      await context.queued(holder, name, 1)
      const second = holder.locks.mutex(name).run(() => void served.push('second'), { fair: true })
      await context.queued(holder, name, 2)
      await lease.release()
      await context.settlesInTime('both to be served', Promise.all([first, second]), 3 * context.timeout)
      assert.deepEqual(served, ['first, fresh', 'second'])
    })

    it('with `fair: true` is first come, first served over clients', async (context) => {
      const clients = [context.client(), context.client(), context.client()]
      const [holder] = clients
      if (holder === undefined) return
      const name = context.name()
      const lease = await holder.locks.mutex(name).acquire({ fair: true })
      const served: number[] = []
      const waits: Promise<void>[] = []
      for (let i = 0; i < 9; i++) {
        const client = clients[(i * 2) % 3] ?? holder
        waits.push(client.locks.mutex(name).run(() => void served.push(i), { fair: true }))
        await context.queued(holder, name, i + 1)
      }
      await lease.release()
      await context.settlesInTime('nine waiters to be served', Promise.all(waits), 4 * context.timeout)
      assert.deepEqual(served, [0, 1, 2, 3, 4, 5, 6, 7, 8])
    })

    it('with `fair: true` continues in order when one in the middle gives up', async (context) => {
      const clients = [context.client(), context.client(), context.client()]
      const [holder] = clients
      if (holder === undefined) return
      const name = context.name()
      const lease = await holder.locks.mutex(name).acquire({ fair: true })
      const served: number[] = []
      const stop = new AbortController()
      const waits: Promise<unknown>[] = []
      for (const [i, client] of clients.entries()) {
        const options = i === 1 ? { fair: true, signal: stop.signal } : { fair: true }
        const wait = client.locks.mutex(name).run(() => void served.push(i), options)
        waits.push(i === 1 ? assert.rejects(wait, { message: 'gave up' }) : wait)
        await context.queued(holder, name, i + 1)
      }
      stop.abort(new Error('gave up'))
      await context.until(
        'the place to be gone',
        async () => (await holder.locks.inspect(name)).waiters.length === 2,
      )
      await lease.release()
      await context.settlesInTime('the others to be served', Promise.all(waits))
      assert.deepEqual(served, [0, 2])
    })
  } else {
    it('is refused with `fair: true` before anything is sent', async (context) => {
      const client = context.client()
      await assert.rejects(client.locks.mutex(context.name()).acquire({ fair: true }), {
        code: 'UNSUPPORTED',
      })
      assert.equal(client.asked(), 0)
    })
  }

  it('without it is bounded: a busy process does not keep the lock from another one', async (context) => {
    const [busy, other] = [context.client(), context.client()]
    const name = context.name()
    let servedBusy = 0
    let waits: Promise<Lease> | undefined
    let servedBefore = 0
    let begin = () => {}
    const begun = new Promise<void>((resolve) => {
      begin = resolve
    })
    const section = async () => {
      servedBusy++
      if (servedBusy === 5) {
        waits = other.locks.mutex(name).acquire()
        await context.queued(other, name, 1)
        // The holder is notified over a separate path, which may be slower: until then it rightly passes the lock on locally.
        await context.until('the holder to hear of it', () => busy.contended(name))
        servedBefore = servedBusy
        begin()
      }
      await pause(1)
    }
    const all = Promise.all(Array.from({ length: 300 }, () => busy.locks.mutex(name).run(section, patient)))
    await Promise.race([all, begun])
    const lease = await context.settlesInTime(
      'the other client to be served',
      waits ?? Promise.reject(new Error('never asked')),
    )
    const passed = servedBusy - servedBefore
    await lease.release()
    await all
    assert.ok(
      passed <= passLimit,
      `${passed} others were served while it waited, at most ${passLimit} may be`,
    )
  })
}

/** Blocks the event loop just as the grant of `name` arrives, until three tenths of it are left. */
function stalling(driver: Driver, name: string, clock: Env['clock']): Driver {
  return {
    ...driver,
    acquire: async (claim, wait) => {
      const grant = await driver.acquire(claim, wait)
      if (grant === undefined || claim.name !== name) return grant
      const { validUntil, maxTtl = claim.ttl } = grant
      block(Math.max(0, validUntil - clock.now() - 0.3 * Math.min(claim.ttl, maxTtl)))
      return grant
    },
  }
}
