/** What happens around `term.handOver`: the named candidate withdraws, or the leader proclaims a value, at just that moment. */
import assert from 'node:assert/strict'
import type { Term } from 'holdfast'
import { type Client, getCells } from './client.js'
import type { TestContext } from './test-context.js'

const patient = { wait: Number.POSITIVE_INFINITY }

/** Does `meanwhile` once, after the next look of this client at the holders and before its caller learns of it. */
function afterInspect({ driver }: Client, meanwhile: () => Promise<unknown>): void {
  const { inspect } = driver
  driver.inspect = async (name) => {
    driver.inspect = inspect
    const found = await inspect.call(driver, name)
    await meanwhile()
    return found
  }
}

/** Does `meanwhile` once, before the next write of this client to a cell. */
function beforeWrite(client: Client, meanwhile: () => Promise<unknown>): void {
  const cells = getCells(client)
  const { write } = cells
  cells.write = async (...args) => {
    cells.write = write
    await meanwhile()
    return write.apply(cells, args)
  }
}

/** Time for whatever was started and need not wait: a few round trips to the store. */
async function fewRoundTrips({ locks }: Client, name: string): Promise<void> {
  for (let trips = 0; trips < 10; trips++) await locks.inspect(name)
}

/** A leader 'a' and, behind it in this order, 'b' and 'c'. */
async function threeCandidates(context: TestContext, a: Client) {
  const [b, c, name] = [context.client(), context.client(), context.name()]
  const term = await a.locks.election(name).campaign('a', { candidate: 'a' })
  const first = b.locks.election(name).campaign('b', { candidate: 'b', ...patient })
  await context.queued(b, name, 1)
  const named = c.locks.election(name).campaign('c', { candidate: 'c', ...patient })
  await context.queued(b, name, 2)
  /** Who leads now, and what everybody sees of it; ends with both having led. */
  const finish = async () => {
    const next = await context.settlesInTime('the next leader', Promise.race([first, named]))
    const seen = await a.locks.election(name).leader()
    await next.resign()
    for (const waits of [first, named]) await (await context.settlesInTime('all to lead', waits)).resign()
    return seen
  }
  return { name, term, finish }
}

const outcome = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'done',
    (error: unknown) => (error as { code?: unknown }).code,
  )

type Kind = (context: TestContext, client: Client) => Promise<void>

const proclaiming = {
  'lose no value that is proclaimed while the leader steps down, nor the name of the successor': async (
    context,
    a,
  ) => {
    const { name, term, finish } = await threeCandidates(context, a)
    let over: Promise<boolean> | undefined
    beforeWrite(a, () => {
      over = term.handOver('c')
      return fewRoundTrips(a, name)
    })
    await term.proclaim('a, moved')
    assert.equal(term.value, 'a, moved')
    assert.equal(await context.settlesInTime('the hand-over', over ?? assert.fail()), true)
    assert.equal((await finish())?.value, 'c')
  },

  'refuse a value that the leader proclaims once it steps down': async (context, a) => {
    const { name, term, finish } = await threeCandidates(context, a)
    let late: Promise<unknown> | undefined
    beforeWrite(a, () => {
      late = outcome(term.proclaim('a, late'))
      return fewRoundTrips(a, name)
    })
    assert.equal(await context.settlesInTime('the hand-over', term.handOver('c')), true)
    assert.equal(await late, 'LEASE_LOST')
    assert.equal(term.value, 'a')
    assert.equal((await finish())?.value, 'c')
  },

  'leave no value behind that was under way when the leader resigned': async (context, a) => {
    const name = context.name()
    const term: Term = await a.locks.election(name).campaign('a')
    let resigned: unknown
    beforeWrite(a, async () => {
      resigned = await term.resign()
    })
    const late = await outcome(term.proclaim('a, late'))
    assert.deepEqual([resigned, late], ['released', 'LEASE_LOST'])
    assert.equal(await getCells(a).read(`leader:${name}`, AbortSignal.timeout(context.timeout)), undefined)
  },
} satisfies Record<string, Kind>

const withdrawing = {
  'answer in time when the named candidate withdraws as the leader steps down': async (context, a) => {
    const [b, name, controller] = [context.client(), context.name(), new AbortController()]
    const mine = a.locks.election(name)
    const term = await mine.campaign('a')
    const { signal } = controller
    const withdrawn = outcome(b.locks.election(name).campaign('b', { candidate: 'b', signal, ...patient }))
    await context.queued(a, name, 1)
    afterInspect(a, () => {
      controller.abort(Object.assign(new Error('thought better of it'), { code: 'WITHDREW' }))
      return withdrawn
    })
    assert.equal(await context.settlesInTime('the answer', term.handOver('b')), false)
    assert.deepEqual([await withdrawn, term.isHeld], ['WITHDREW', false])
    const next = await context.settlesInTime('the next leader', mine.campaign('a again'))
    await next.resign()
  },
} satisfies Record<string, Kind>

/** Without a queue a candidate between two attempts is in no list, so its absence says nothing. */
export const successions = (fair: boolean): Readonly<Record<string, Kind>> => ({
  ...proclaiming,
  ...(fair && withdrawing),
})
