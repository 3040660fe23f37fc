import assert from 'node:assert/strict'
import type { DeadlockError } from 'holdfast'
import type { Client } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { pause, type TestContext } from './test-context.js'

/** Each client takes its own name, then requests the next client's: a ring. */
async function createRing(
  context: TestContext,
  clients: readonly Client[],
): Promise<PromiseSettledResult<string>[]> {
  const names = clients.map(() => context.name())
  let inside = 0
  const enter = async ({ locks }: Client, i: number) => {
    const [own = '', next = ''] = [names[i], names[(i + 1) % names.length]]
    return locks.mutex(own).run(async () => {
      inside++
      await context.until('all to be inside', () => inside === clients.length)
      return locks.mutex(next).run(() => 'done', { wait: Number.POSITIVE_INFINITY })
    })
  }
  return context.settlesInTime(
    'the ring to be broken',
    Promise.allSettled(clients.map(enter)),
    8_000 + context.timeout,
  )
}

const kinds = {
  'of two in one store are broken: one is rejected with the cycle, the other goes on': async (context, a) => {
    const results = await createRing(context, [a, context.client()])
    const broken = results.filter((one) => one.status === 'rejected')
    assert.equal(broken.length, 1, JSON.stringify(results))
    const error = broken[0]?.reason as DeadlockError
    assert.equal(error.code, 'DEADLOCK')
    assert.equal(error.cycle.length, 2)
    assert.match(error.message, /is held by .*, who waits for .*, which this context holds/)
  },

  'of three, and of tasks of one process, are broken, too': async (context, a) => {
    for (const clients of [
      [a, context.client(), context.client()],
      [a, a],
    ]) {
      const results = await createRing(context, clients)
      const codes = results.map((one) => (one.status === 'rejected' ? one.reason.code : 'ok'))
      assert.equal(codes.filter((code) => code === 'DEADLOCK').length, 1, `${codes}`)
      assert.equal(codes.filter((code) => code === 'ok').length, clients.length - 1)
    }
  },

  'of holds taken with acquire are broken, when the wait names them with `holding`': async (context, a) => {
    const b = context.client()
    const [x, y] = [context.name(), context.name()]
    const enter = async ({ locks }: Client, own: string, next: string, both: Promise<void>) => {
      const holding = await locks.mutex(own).acquire()
      held++
      try {
        await both
        await (await locks.mutex(next).acquire({ wait: Number.POSITIVE_INFINITY, holding })).release()
      } finally {
        await holding.release()
      }
    }
    let held = 0
    const both = context.until('both to hold', () => held === 2)
    const results = await context.settlesInTime(
      'the ring to be broken',
      Promise.allSettled([enter(a, x, y, both), enter(b, y, x, both)]),
      8_000 + context.timeout,
    )
    const broken = results.filter((one) => one.status === 'rejected')
    assert.deepEqual(
      broken.map(({ reason }) => reason.code),
      ['DEADLOCK'],
    )
    const lease = await a.locks.mutex(x).acquire()
    await assert.rejects(a.locks.mutex(x).acquire({ holding: lease }), { code: 'DEADLOCK' })
    await lease.release()
  },

  'of several locks and a nested one are broken': async (context, a) => {
    const b = context.client()
    const [x = '', y = ''] = [context.name(), context.name()].sort()
    let other: Promise<unknown> = Promise.resolve()
    const ring = b.locks.mutex(y).run(async () => {
      other = a.locks
        .all([a.locks.mutex(x), a.locks.mutex(y)])
        .run(() => 'both', { wait: Number.POSITIVE_INFINITY })
      await context.queued(b, y, 1)
      return b.locks.mutex(x).run(() => 'inner', { wait: Number.POSITIVE_INFINITY })
    })
    const first = await context.settlesInTime(
      'the ring to be broken',
      ring.catch((error) => error.code),
      8_000 + context.timeout,
    )
    const second = await context.settlesInTime(
      'the other',
      other.catch((error) => error.code),
    )
    assert.deepEqual(
      [first, second].toSorted(),
      first === 'inner' ? ['DEADLOCK', 'inner'] : ['DEADLOCK', 'both'],
    )
  },

  'are not reported in a queue that is merely slow': async (context, a) => {
    const [b, c] = [context.client(), context.client()]
    const [x, y, z] = [context.name(), context.name(), context.name()]
    const slow = a.locks.mutex(z).run(() => pause(1_500))
    const chain = [
      b.locks.mutex(y).run(() => b.locks.mutex(z).run(() => 'b')),
      c.locks.mutex(x).run(() => c.locks.mutex(y).run(() => 'c')),
    ]
    assert.deepEqual(
      await context.settlesInTime('the queue', Promise.all(chain), 2_000 + 2 * context.timeout),
      ['b', 'c'],
    )
    await slow
  },
} satisfies Record<string, (context: TestContext, client: Client) => Promise<void>>

export function deadlocks(it: It, { traits }: Fixture): void {
  it('are predicted when locks are acquired in two orders, even if nobody waits', async (context) => {
    const { locks } = context.client()
    const [x, y] = [context.name('x'), context.name('y')]
    const told: unknown[] = []
    locks.on('order', ({ orders }) => told.push(orders))
    const both = (one: string, two: string) =>
      locks.mutex(one).run(() => locks.mutex(two).run(() => undefined))
    await both(x, y)
    assert.deepEqual(told, [])
    await both(y, x)
    await both(x, y)
    await both(y, x)
    assert.deepEqual(told, [
      [
        [y, x],
        [x, y],
      ],
    ])
  })
  if (traits.cells !== true) return
  for (const [name, test] of Object.entries(kinds)) it(name, (context) => test(context, context.client()))
}
