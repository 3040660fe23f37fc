import assert from 'node:assert/strict'
import { acquireInChild } from './child-process.js'
import type { Client } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { expiredWait, pause, type TestContext } from './test-context.js'

const kinds = {
  'runs once for many concurrent callers, and all get the result': async (context, a) => {
    const clients = [a, context.client(), context.client()]
    const key = context.name()
    let runs = 0
    const order = () =>
      pause(20).then(() => {
        runs++
        return { order: 7, at: ['x', null, 1.5] }
      })
    const asked = clients.flatMap(({ locks }) =>
      [1, 2, 3].map(() => locks.once(key, order, { keep: 20_000 })),
    )
    for (const result of await Promise.all(asked))
      assert.deepEqual(result, { order: 7, at: ['x', null, 1.5] })
    assert.equal(runs, 1)
    assert.deepEqual(await context.client().locks.once(key, order), { order: 7, at: ['x', null, 1.5] })
    assert.equal(runs, 1, 'it is kept for later callers')
  },

  'gives every caller the error, with its name, message and code': async (context, a) => {
    const [b, key] = [context.client(), context.name()]
    const refused = Object.assign(new RangeError('card declined'), { code: 'DECLINED' })
    let runs = 0
    const pay = async () => {
      runs++
      await context.queued(a, key, 1)
      throw refused
    }
    const first = a.locks.once(key, pay).catch((error: unknown) => error)
    await context.until('it to run', () => runs === 1)
    const second = b.locks.once(key, pay).catch((error: unknown) => error)
    assert.equal(await first, refused)
    const theirs = (await second) as Error & { code?: string }
    assert.ok(theirs instanceof Error && theirs !== refused)
    assert.deepEqual([theirs.name, theirs.message, theirs.code], ['RangeError', 'card declined', 'DECLINED'])
    assert.equal(runs, 1)
  },

  'forgets the result after `keep`, and the next run has a greater token': async (context, a) => {
    const [b, key] = [context.client(), context.name()]
    const tokens: number[] = []
    const run = (client: Client) =>
      client.locks.once(key, ({ token }) => void tokens.push(token), { keep: 300, ttl: 5_000 })
    assert.equal(await run(a), undefined)
    await context.until('it to run again', async () => {
      await run(b)
      return tokens.length > 1
    })
    const [first = 0, second = 0] = tokens
    assert.ok(second > first, `token ${second} came after ${first}`)
  },

  'is rejected when its result cannot be stored': async (context, a) => {
    const key = context.name()
    await assert.rejects(
      a.locks.once(key, () => 'x'.repeat(70_000)),
      /65536/,
    )
    await assert.rejects(
      context.client().locks.once(key, () => 'another'),
      { name: 'RangeError' },
    )
    await assert.rejects(
      a.locks.once(context.name(), () => 1n),
      { name: 'TypeError' },
    )
  },

  'does not let a holder that lost its lease replace the result of a later one': async (context, a) => {
    const [b, key] = [context.client(), context.name()]
    const { loseHold } = context.fixture.faults
    let go = () => {}
    const gate = new Promise<void>((resolve) => {
      go = resolve
    })
    let began = false
    const late = a.locks.once(
      key,
      async (lease) => {
        began = true
        await gate
        // The synchronous check is authoritative; waiting for it here makes the test deterministic.
        await context.until('the loss to be seen', () => !lease.isHeld)
        return 'late'
      },
      { ttl: context.momentary },
    )
    const caught = late.catch((error: unknown) => error)
    await context.until('it to begin', () => began)
    await (loseHold?.(key) ?? b.locks.forceRelease(key))
    assert.equal(await b.locks.once(key, () => 'right'), 'right')
    go()
    const error = (await caught) as { code?: string; result?: unknown }
    assert.deepEqual([error.code, error.result], ['LEASE_LOST', 'late'])
    assert.equal(await context.client().locks.once(key, () => 'never'), 'right')
  },

  'ends the wait for another caller in time': async (context, a) => {
    const [b, key] = [context.client(), context.name()]
    let end: (() => void) | undefined
    const first = a.locks.once(
      key,
      () =>
        new Promise<void>((resolve) => {
          end = resolve
        }),
    )
    await context.connected(b)
    // Holding the lock is not enough: the client still checks whether there is a result.
    await context.until('it to begin', () => end !== undefined)
    await assert.rejects(
      b.locks.once(key, () => 1, { wait: 60 }),
      expiredWait,
    )
    const controller = new AbortController()
    const waits = b.locks.once(key, () => 1, { signal: controller.signal })
    const reason = new Error('no longer wanted')
    controller.abort(reason)
    await assert.rejects(waits, (error) => error === reason)
    end?.()
    await first
  },
} satisfies Record<string, (context: TestContext, client: Client) => Promise<void>>

export function once(it: It, { traits, childClient }: Fixture): void {
  if (traits.cells !== true) {
    it('is refused without cells', async (context) => {
      await assert.rejects(
        context.client().locks.once(context.name(), () => 1),
        { code: 'UNSUPPORTED' },
      )
    })
    return
  }
  for (const [name, test] of Object.entries(kinds)) it(name, (context) => test(context, context.client()))
  if (!traits.shared || childClient === undefined) return

  it('lets the next one run when the process in the middle of it is killed with -9', async (context) => {
    const client = context.client()
    const key = context.name()
    const child = acquireInChild(context, childClient, key, context.lasting, 'once')
    const { token } = await child.received('granted')
    const next = client.locks.once(key, (lease) => lease.token, { wait: Number.POSITIVE_INFINITY })
    await context.queued(client, key, 1)
    await child.kill()
    const mine = await context.settlesInTime('the next run', next, 2 * context.lasting + context.timeout)
    assert.ok(mine > token, `token ${mine} came after ${token}`)
  })
}
