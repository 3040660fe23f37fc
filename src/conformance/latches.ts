/**
 * Tests of latches.
 * Long because what opens a latch, and what does not, are read together.
 */
import assert from 'node:assert/strict'
import { acquireInChild } from './child-process.js'
import { beforeInspect, type Client, getCells } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { notYet, type TestContext } from './test-context.js'

const forEver = { wait: Number.POSITIVE_INFINITY }
const gone = (lock: string) => ({ name: 'LatchGoneError', code: 'LATCH_GONE', lock })

/** Begins a wait, and resolves once it has read the latch and waits for a change. */
async function parked(
  client: Client,
  wait: () => Promise<boolean>,
): Promise<{ readonly waits: Promise<boolean> }> {
  const cells = getCells(client)
  const changed = cells.changed.bind(cells)
  const looked = new Promise<void>((resolve) => {
    cells.changed = (...asked) => {
      resolve()
      return changed(...asked)
    }
  })
  const waits = wait()
  // It may have settled before anybody checks the result.
  waits.catch(() => undefined)
  await looked
  cells.changed = changed
  return { waits }
}

const kinds = {
  'open for all waiters once counted down': async (context, a) => {
    const [b, c, name] = [context.client(), context.client(), context.name()]
    const latch = a.locks.latch(name)
    const early = c.locks.latch(name).wait({ wait: Number.POSITIVE_INFINITY })
    assert.equal(await latch.setCount(3, { keep: 20_000 }), true)
    assert.equal(await b.locks.latch(name).setCount(5), false, 'it is closed already')
    const waits = [a, b, c].map((client) => client.locks.latch(name).wait({ wait: Number.POSITIVE_INFINITY }))
    // If an assertion below fails, closing the clients rejects these too; the assertion must be what is reported.
    for (const one of [early, ...waits]) one.catch(() => undefined)
    assert.equal(await b.locks.latch(name).countDown(), 2)
    assert.equal(await c.locks.latch(name).wait({ wait: 0 }), false)
    assert.equal(await notYet(c.locks.latch(name).wait({ wait: 40 })), false)
    assert.equal(await latch.countDown(7), 0)
    assert.deepEqual(await context.settlesInTime('all to go on', Promise.all([early, ...waits])), [
      true,
      true,
      true,
      true,
    ])
    assert.equal(await context.client().locks.latch(name).wait(), true, 'it stays open for late waiters')
    assert.equal(await b.locks.latch(name).setCount(1), true, 'it can be closed again')
    assert.equal(await latch.count(), 1)
    assert.equal(await latch.countDown(), 0)
  },

  'count every one of many, exactly': async (context, a) => {
    const [b, c, name] = [context.client(), context.client(), context.name()]
    const count = 40
    await a.locks.latch(name).setCount(count, { keep: 20_000 })
    const left = await Promise.all(
      Array.from({ length: count - 1 }, (_, i) => (i % 2 ? b : c).locks.latch(name).countDown()),
    )
    assert.deepEqual(new Set(left).size, count - 1)
    assert.equal(await a.locks.latch(name).count(), 1)
    assert.equal(await a.locks.latch(name).countDown(), 0)
  },

  'reject the waiters of a deleted latch, in any process': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    const [mine, theirs] = [a.locks.latch(name), b.locks.latch(name)]
    assert.equal(await mine.delete(), false, 'there is none')
    await mine.setCount(2)
    const waits = [await parked(a, () => mine.wait(forEver)), await parked(b, () => theirs.wait(forEver))]
    assert.equal(await theirs.delete(), true)
    for (const { waits: one } of waits)
      await assert.rejects(context.settlesInTime('to hear of it', one), gone(name))
    assert.equal(await mine.count(), 0)
    assert.equal(await mine.wait({ wait: 0 }), false, 'it is as if it had never been')
    await assert.rejects(mine.countDown(), /is not closed/)
    assert.equal(await mine.setCount(1), true)
    assert.equal(await theirs.delete(), true)
    assert.equal(await mine.delete(), false)
  },

  'resolve waiters with the outcome of their own closing, even if the latch is closed again at once': async (
    context,
    a,
  ) => {
    const [b, name] = [context.client(), context.name()]
    const [mine, theirs] = [a.locks.latch(name), b.locks.latch(name)]
    await mine.setCount(1)
    const opened = await parked(b, () => theirs.wait(forEver))
    await mine.countDown()
    await mine.setCount(1)
    assert.equal(await context.settlesInTime('to hear that it opened', opened.waits), true)
    const deleted = await parked(b, () => theirs.wait(forEver))
    await mine.delete()
    await mine.setCount(1)
    await assert.rejects(context.settlesInTime('to hear that it was deleted', deleted.waits), gone(name))
    await mine.delete()
  },

  'refuse what makes no sense': async (context, a) => {
    const latch = a.locks.latch(context.name())
    await assert.rejects(latch.countDown(), /is not closed; setCount\(\) closes it/)
    await assert.rejects(latch.setCount(0), /count must be a whole number from 1 to 1000000000, got 0/)
    await assert.rejects(latch.setCount(1, { keep: -1 }), /keep must be from 0/)
    const controller = new AbortController()
    const reason = new Error('no longer wanted')
    const waits = latch.wait({ signal: controller.signal })
    controller.abort(reason)
    await assert.rejects(waits, (error) => error === reason)
    assert.equal(await latch.count(), 0)
  },
} satisfies Record<string, (context: TestContext, client: Client) => Promise<void>>

const joined = {
  'that are deleted leave members their leases': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    const latch = a.locks.latch(name)
    await latch.setCount(1)
    const work = await b.locks.latch(name).join()
    assert.equal(await latch.delete(), true)
    assert.equal(work.isHeld, true)
    await assert.rejects(b.locks.latch(name).join(), /is not closed/)
    assert.equal(await work.release(), 'released')
    assert.equal(await latch.count(), 0)
  },

  'are held closed by their members, until they leave': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    await a.locks.latch(name).setCount(1, { keep: 20_000 })
    const work = await b.locks.latch(name).join()
    assert.equal(await a.locks.latch(name).count(), 2)
    const waits = a.locks.latch(name).wait()
    assert.equal(await a.locks.latch(name).countDown(), 0)
    assert.equal(await a.locks.latch(name).wait({ wait: 0 }), false)
    assert.equal(await work.release(), 'released')
    assert.equal(await context.settlesInTime('it to open', waits), true)
    await assert.rejects(b.locks.latch(name).join(), /is not closed/)
  },

  'stay closed when a member joins before the last one leaves, between two polls of a waiter': async (
    context,
    a,
  ) => {
    const [b, name] = [context.client(), context.name()]
    const [mine, theirs] = [a.locks.latch(name), b.locks.latch(name)]
    await mine.setCount(1, { keep: 20_000 })
    let work = await theirs.join()
    await mine.countDown()
    const swap = async () => {
      const next = await theirs.join()
      await work.release()
      work = next
    }
    beforeInspect(a, swap)
    assert.equal(await mine.wait({ wait: 0 }), false, 'it opened while somebody who joined was at work')
    beforeInspect(a, swap)
    assert.equal(await mine.count(), 1)
    beforeInspect(a, swap)
    await (await mine.join()).release()
    await work.release()
    assert.equal(await mine.wait({ wait: 0 }), true)
  },

  'do not count members that are cut off for ever': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    await a.locks.latch(name).setCount(1, { keep: 20_000 })
    const work = await b.locks.latch(name).join({ ttl: context.ttl })
    await a.locks.latch(name).countDown()
    await context.cut(b)
    assert.equal(await a.locks.latch(name).wait({ wait: 2 * context.ttl + context.timeout }), true)
    assert.equal(work.isHeld, false, 'it opened while somebody who joined was at work')
  },

  'are kept no longer than open ones, although their members were cut off': async (context, a) => {
    const b = context.client()
    await context.connected(b)
    const forgotten = async (name: string) =>
      (await getCells(a).read(`latch:${name}`, new AbortController().signal)) === undefined
    const [before, after] = [context.name(), context.name()]
    const keep = { keep: 1_000 }
    await a.locks.latch(before).setCount(1, keep)
    await a.locks.latch(after).setCount(1, keep)
    const works = [
      await b.locks.latch(before).join({ ttl: context.momentary }),
      await b.locks.latch(after).join({ ttl: context.momentary }),
    ]
    await a.locks.latch(after).countDown()
    await context.cut(b)
    const ended = async (name: string) =>
      (await a.locks.inspect(name)).holders.every(({ expiresIn }) => expiresIn <= 0)
    await context.until('their leases to end', async () => (await ended(before)) && (await ended(after)))
    assert.deepEqual(
      works.map((work) => work.isHeld),
      [false, false],
    )
    assert.equal(await a.locks.latch(before).countDown(), 0)
    assert.equal(await a.locks.latch(after).wait({ wait: 0 }), true)
    await context.until('the store to forget one that was counted down', () => forgotten(before))
    await context.until('the store to forget one that was found open', () => forgotten(after))
  },
} satisfies Record<string, (context: TestContext, client: Client) => Promise<void>>

export function latches(it: It, { traits, childClient }: Fixture): void {
  if (traits.cells !== true) {
    it('are refused when they are made', async (context) => {
      const { locks } = context.client()
      assert.throws(() => locks.latch(context.name()), { code: 'UNSUPPORTED' })
    })
    return
  }
  const shared = traits.modes.includes('shared')
  for (const [name, test] of Object.entries({ ...kinds, ...(shared && joined) }))
    it(name, (context) => test(context, context.client()))
  if (!shared) {
    it('cannot be joined without shared mode', async (context) => {
      const latch = context.client().locks.latch(context.name())
      await latch.setCount(1)
      await assert.rejects(latch.join(), { code: 'UNSUPPORTED' })
      await latch.countDown()
    })
    return
  }
  if (!traits.shared || childClient === undefined) return

  it('do not count for ever a process that joined and was killed with -9', async (context) => {
    const client = context.client()
    const name = context.name()
    const latch = client.locks.latch(name)
    await latch.setCount(1, { keep: 20_000 })
    const child = acquireInChild(context, childClient, name, context.lasting, 'latch')
    await child.received('granted')
    await latch.countDown()
    assert.equal(await latch.count(), 1)
    await child.kill()
    assert.equal(await latch.wait({ wait: 2 * context.lasting + context.timeout }), true)
  })
}
