import assert from 'node:assert/strict'
import type { Leader } from 'holdfast'
import { acquireInChild } from './child-process.js'
import type { Client } from './client.js'
import type { Fixture } from './fixture.js'
import { successions } from './succession.js'
import type { It } from './suite.js'
import { expiredWait, type TestContext } from './test-context.js'

const patient = { wait: Number.POSITIVE_INFINITY }

const kinds = {
  'have one leader at a time, whom every client sees': async (context, a) => {
    const [b, c, name] = [context.client(), context.client(), context.name()]
    const [first, second] = [a.locks.election(name), b.locks.election(name)]
    assert.equal(await first.leader(), undefined)
    const term = await first.campaign('10.0.0.1', { candidate: 'a' })
    assert.deepEqual([first.isLeader, second.isLeader], [true, false])
    const waits = second.campaign('10.0.0.2', { candidate: 'b', ...patient })
    await context.queued(c, name, 1)
    const { value, token, candidate } = (await c.locks.election(name).leader()) ?? {}
    assert.deepEqual([value, token, candidate], ['10.0.0.1', term.token, 'a'])
    assert.equal(await term.resign(), 'released')
    assert.equal(first.isLeader, false)
    const next = await context.settlesInTime('the next leader', waits)
    assert.ok(next.token > term.token)
    assert.equal((await first.leader())?.value, '10.0.0.2')
    await next.resign()
    assert.equal(await c.locks.election(name).leader(), undefined)
  },

  'are observed: the present leader, every new one and every new value': async (context, a) => {
    const [b, c, name] = [context.client(), context.client(), context.name()]
    const controller = new AbortController()
    const seen: Leader[] = []
    const observe = async () => {
      for await (const leader of c.locks.election(name).observe({ signal: controller.signal }))
        seen.push(leader)
    }
    const observing = observe().catch((error: unknown) => error)
    const sees = (value: string) => context.until(`${value} to be seen`, () => seen.at(-1)?.value === value)
    const first = await a.locks.election(name).campaign('one')
    await sees('one')
    await first.proclaim('one, moved')
    await sees('one, moved')
    const waits = b.locks.election(name).campaign('two', patient)
    await first.resign()
    const second = await waits
    await sees('two')
    assert.deepEqual(
      seen.map(({ token }) => token),
      [first.token, first.token, second.token],
    )
    for await (const leader of a.locks.election(name).observe()) {
      assert.equal(leader.value, 'two', 'a late observer begins with the present leader')
      break
    }
    const reason = new Error('seen enough')
    controller.abort(reason)
    assert.equal(await context.settlesInTime('the observer to end', observing), reason)
    await second.resign()
  },

  'end for a leader that is cut off before another can lead': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    const first = a.locks.election(name)
    const ttl = context.momentary
    const term = await first.campaign('one', { ttl })
    await context.cut(a)
    const next = await b.locks.election(name).campaign('two', { wait: 2 * ttl + context.timeout })
    assert.deepEqual([first.isLeader, term.isHeld], [false, false], 'two leaders')
    assert.throws(() => term.assertHeld(), { code: 'LEASE_LOST' })
    await assert.rejects(term.proclaim('still me'), { code: 'LEASE_LOST' })
    await context.heal()
    assert.equal((await b.locks.election(name).leader())?.value, 'two')
    await next.resign()
  },

  'cannot be changed by a leader whose lease was taken away': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    const { loseHold } = context.fixture.faults
    const term = await a.locks.election(name).campaign('one', { ttl: context.momentary })
    await (loseHold?.(name) ?? b.locks.forceRelease(name))
    const next = await b.locks.election(name).campaign('two')
    await assert.rejects(term.proclaim('one, still'), { code: 'LEASE_LOST' })
    assert.equal((await a.locks.election(name).leader())?.value, 'two')
    await term.resign()
    assert.equal((await a.locks.election(name).leader())?.value, 'two', 'it took back what was not its own')
    await next.resign()
  },

  'go to the candidate that the leader names, whatever its position': async (context, a) => {
    const [b, c, name] = [context.client(), context.client(), context.name()]
    const term = await a.locks.election(name).campaign('a', { candidate: 'a' })
    assert.equal(await term.handOver('nobody'), false)
    assert.equal(term.isHeld, true, 'it leads on when there is nobody to follow')
    const impatient = b.locks.election(name).campaign('b', { candidate: 'b', priority: 5, ...patient })
    await context.queued(b, name, 1)
    const named = c.locks.election(name).campaign('c', { candidate: 'c', ...patient })
    await context.queued(b, name, 2)
    assert.equal(await context.settlesInTime('the hand-over', term.handOver('c')), true)
    const next = await named
    assert.equal((await a.locks.election(name).leader())?.candidate, 'c')
    assert.ok(next.token > term.token)
    await next.resign()
    await (await impatient).resign()
  },

  'go to the waiting candidate with the highest priority': async (context, a) => {
    const name = context.name()
    const term = await a.locks.election(name).campaign('first')
    const won: number[] = []
    const all: Promise<unknown>[] = []
    for (const [place, priority] of [0, 3, -1, 7, 3].entries()) {
      const { locks } = context.client()
      const run = async () => {
        const mine = await locks
          .election(name)
          .campaign('x', { candidate: `c${place}`, priority, ...patient })
        won.push(priority)
        await mine.resign()
      }
      all.push(run())
      await context.queued(a, name, place + 1)
    }
    await term.resign()
    await context.settlesInTime('all to have led', Promise.all(all))
    if (context.fixture.traits.fair) assert.deepEqual(won, [7, 3, 3, 0, -1])
    else assert.equal(won.length, 5)
  },

  'are not won by a candidate that gave up': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    const term = await a.locks.election(name).campaign('one')
    const other = b.locks.election(name)
    await assert.rejects(other.campaign('two', { wait: 50 }), expiredWait)
    await assert.rejects(other.campaign('two', { wait: 0 }), { code: 'ACQUIRE_TIMEOUT' })
    await assert.rejects(other.campaign('two', { candidate: '' }), /candidate must not be empty/)
    await assert.rejects(other.campaign('two', { priority: 0.5 }), /priority must be a whole number, got 0.5/)
    await term.resign()
    assert.equal(await term.resign(), 'already-released')
    assert.equal(other.isLeader, false)
  },
} satisfies Record<string, (context: TestContext, client: Client) => Promise<void>>

export function elections(it: It, { traits, childClient }: Fixture): void {
  if (traits.cells !== true) {
    it('are refused when they are made', async (context) => {
      const { locks } = context.client()
      assert.throws(() => locks.election(context.name()), { code: 'UNSUPPORTED' })
    })
    return
  }
  for (const [name, test] of Object.entries({ ...kinds, ...successions(traits.fair) }))
    it(name, (context) => test(context, context.client()))
  if (!traits.shared || childClient === undefined) return

  it('never name a dead leader', async (context) => {
    const client = context.client()
    const name = context.name()
    const mine = client.locks.election(name)
    const child = acquireInChild(context, childClient, name, context.ttl, 'election')
    const { token } = await child.received('granted')
    assert.equal((await mine.leader())?.candidate, 'child')
    await child.kill()
    await context.until(
      'nobody to lead',
      async () => (await mine.leader()) === undefined,
      2 * context.ttl + context.timeout,
    )
    const term = await mine.campaign('next')
    assert.ok(term.token > token)
    await term.resign()
  })
}
