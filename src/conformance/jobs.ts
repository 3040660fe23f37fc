import assert from 'node:assert/strict'
import { acquireInChild } from './child-process.js'
import type { Client } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import type { TestContext } from './test-context.js'

const kinds = {
  'run on one of many hosts, and are skipped by the others': async (context, a) => {
    const clients = [a, context.client(), context.client(), context.client()]
    const name = context.name()
    // A client still connecting would arrive after the first job has ended.
    await context.connected(...clients)
    let runs = 0
    let end = () => {}
    const ended = new Promise<void>((resolve) => {
      end = resolve
    })
    const work = async () => {
      runs++
      await ended
      return 'report'
    }
    const all = clients.map(({ locks }) => locks.job(name).run(work))
    const skipped: unknown[] = []
    for (const run of all) void run.then((outcome) => skipped.push(outcome))
    // All of them: one that is slow to connect would find the lock free once the job has ended.
    await context.until('the others to be skipped', () => skipped.length === 3)
    for (const outcome of skipped) assert.deepEqual(outcome, { ran: false, why: 'held' })
    await context.until('it to run', () => runs === 1)
    end()
    const outcomes = await Promise.all(all)
    assert.equal(outcomes.filter(({ ran }) => ran).length, 1)
    assert.equal(runs, 1)
    assert.deepEqual(await a.locks.job(name).run(() => 'again'), { ran: true, result: 'again' })
  },

  'are not run again by any host within minHold of their start, also when they fail': async (context, a) => {
    const [b, name, minHold] = [context.client(), context.name(), 600]
    await context.connected(a, b)
    // Taken before the request: by this clock no store, and no process, counts from an earlier time.
    const from = performance.now()
    const failing = a.locks.job(name, { minHold, ttl: 5_000 }).run(() => {
      throw new Error('disk full')
    })
    await assert.rejects(failing, /disk full/)
    const again = await b.locks.job(name, { minHold }).run(() => 1)
    const early = performance.now() - from < minHold / 2
    if (early) assert.equal(again.ran, false)
    await context.until(
      'it to run again',
      async () => (await b.locks.job(name, { minHold: 1 }).run(() => 1)).ran,
    )
    assert.ok(performance.now() - from >= minHold - 50, `after ${performance.now() - from} ms`)
  },

  'end their lease at maxHold': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    await context.connected(a, b)
    let began = false
    const late = a.locks.job(name, { maxHold: 150, ttl: 5_000 }).run(async ({ signal }) => {
      began = true
      // On a busy machine the lease may be lost before this point.
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve))
      await context.until('another to run', async () => (await b.locks.job(name).run(() => 1)).ran)
      return 'too late'
    })
    const error = (await late.catch((error: unknown) => error)) as Record<string, unknown>
    // After the lease is granted, the store is asked whether the job may begin: the lease may be over by then, and nothing was run.
    const result = began ? 'too late' : undefined
    assert.deepEqual([error.code, error.why, error.result], ['LEASE_LOST', 'max-hold', result])
  },

  'refuse what makes no sense': async (context, { locks }) => {
    const name = context.name()
    assert.throws(() => locks.job(name, { minHold: 10, maxHold: 5 }), /minHold \(10 ms\) must not be longer/)
    assert.throws(() => locks.job(name, { minHold: Number.POSITIVE_INFINITY }), /minHold must be from 0/)
    assert.throws(() => locks.job(name, { maxHold: 0 }), /maxHold must be from 1/)
    assert.deepEqual(await locks.job(name).run(() => undefined), { ran: true, result: undefined })
  },
} satisfies Record<string, (context: TestContext, client: Client) => Promise<void>>

export function jobs(it: It, { traits, childClient }: Fixture): void {
  for (const [name, test] of Object.entries(kinds)) it(name, (context) => test(context, context.client()))
  if (traits.cells !== true) return

  it('keep minHold although the process that ran them has closed its locks', async (context) => {
    const [a, b, name] = [context.client(), context.client(), context.name()]
    await context.connected(a, b)
    await a.locks.job(name, { minHold: 60_000 }).run(() => 1)
    await a.locks.close()
    assert.deepEqual(await b.locks.job(name).run(() => 2), { ran: false, why: 'too-soon' })
  })
  if (!traits.shared || childClient === undefined) return

  it('keep minHold, and nothing else, of a process that was killed with -9 in the middle', async (context) => {
    const client = context.client()
    const name = context.name()
    // A job makes a single attempt, which may not take longer than its ttl.
    const ttl = context.lasting
    const child = acquireInChild(context, childClient, name, ttl, 'job')
    await context.connected(client)
    await child.received('granted')
    const run = () => client.locks.job(name).run(() => 1)
    assert.deepEqual(await run(), { ran: false, why: 'held' })
    await child.kill()
    let last: unknown
    const tooSoon = async () => {
      const outcome = await run()
      last = outcome
      return !outcome.ran && outcome.why === 'too-soon'
    }
    await context
      .until('the lock of the dead to be free', tooSoon, 2 * ttl + context.timeout)
      .catch((error) => {
        throw new Error(`${error.message}; the last outcome was ${JSON.stringify(last)}`)
      })
    await context.assertFree(client, name)
  })
}
