import assert from 'node:assert/strict'
import { acquireInChild } from './child-process.js'
import { type Client, getCells } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { notYet, type TestContext } from './test-context.js'

const forEver = { wait: Number.POSITIVE_INFINITY }

const kinds = {
  'admit all together, and let them leave together, round after round': async (context, a) => {
    const clients = [a, context.client(), context.client()]
    const name = context.name()
    const log: string[] = []
    const worker = async ({ locks }: Client, i: number) => {
      for (let round = 1; round <= 3; round++) {
        log.push(`${round} comes`)
        const inside = await locks.barrier(name, 3).enter(forEver)
        assert.equal(inside.round, round)
        log.push(`${round} works`)
        assert.equal(await inside.leave(forEver), true)
        log.push(`${round} done`)
        assert.equal(inside.lease.state, 'released', `worker ${i}`)
      }
    }
    await Promise.all(clients.map(worker))
    for (let round = 1; round <= 3; round++) {
      const last = (what: string) => log.lastIndexOf(`${round} ${what}`)
      assert.ok(last('comes') < log.indexOf(`${round} works`), `round ${round} began before all had come`)
      assert.ok(last('works') < log.indexOf(`${round} done`), `round ${round} ended before all had left`)
    }
  },

  'make one that comes while a round is open wait for the next': async (context, a) => {
    const [b, c, name] = [context.client(), context.client(), context.name()]
    const [one, two] = await Promise.all([a, b].map(({ locks }) => locks.barrier(name, 2).enter()))
    assert.ok(one && two)
    let third = 0
    const late = c.locks
      .barrier(name, 2)
      .enter(forEver)
      .then((inside) => {
        third = inside.round
        return inside
      })
    assert.equal(await notYet(one.leave({ wait: 50 })), false, 'the other is still inside')
    assert.equal(third, 0)
    // With so short a wait, `leave` may not have been able to record its departure yet; the second call records it, and waits for the other.
    assert.deepEqual(await Promise.all([one.leave(), two.leave()]), [true, true])
    const again = await a.locks.barrier(name, 2).enter()
    assert.deepEqual([again.round, (await late).round], [2, 2])
    await Promise.all([again.leave(), (await late).leave()])
  },

  'do not open for too few, and report how many were there': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    const alone = a.locks.barrier(name, 2)
    await context.connected(a, b)
    // Long enough for a busy machine to register the party; otherwise 0 of 2 were there.
    await assert.rejects(alone.enter({ wait: 1_500 }), /did not open: [01] of 2 were there within \d+ ms/)
    await assert.rejects(alone.enter({ wait: 0 }), { code: 'ACQUIRE_TIMEOUT' })
    const controller = new AbortController()
    const reason = new Error('no longer wanted')
    const waits = alone.enter({ signal: controller.signal, ...forEver })
    // Holding the lease is not enough: the first writer of the barrier's cell decides its number of parties.
    await context.until('it to be counted', async () => {
      const cell = await getCells(b).read(`barrier:${name}`, new AbortController().signal)
      return cell !== undefined && JSON.parse(cell.value).members.length === 1
    })
    await assert.rejects(
      b.locks.barrier(name, 3).enter({ wait: context.timeout }),
      /has 2 parties for its current users, got 3|did not open/,
    )
    controller.abort(reason)
    await assert.rejects(waits, (error) => error === reason)
    assert.throws(() => a.locks.barrier(name, 0), /from 1 to 1000, got 0/)
    const [one, two] = await Promise.all([a, b].map(({ locks }) => locks.barrier(name, 2).enter()))
    await one?.[Symbol.asyncDispose]()
    assert.equal(await two?.leave(), true)
  },

  'do not count one that was cut off while it waited': async (context, a) => {
    const [b, c, name] = [context.client(), context.client(), context.name()]
    await context.connected(a, b, c)
    // The lease must last until the client is cut off, even on a busy machine.
    const ttl = Math.max(context.ttl, 1_500)
    const granted = new Promise((resolve) => a.locks.on('granted', resolve))
    const gone = a.locks.barrier(name, 2).enter({ ttl, ...forEver })
    const caught = gone.catch((error: unknown) => error)
    await context.until('it to stand there', async () => (await holding(b, name)) === 1)
    // Others may see its lease before it does. Cut off by then, it would have no lease to lose, and would wait for the reply.
    await context.settlesInTime('it to have its lease', granted)
    await context.cut(a)
    await context.until('it to be seen as gone', async () => (await holding(b, name)) === 0)
    const one = b.locks.barrier(name, 2).enter(forEver)
    await context.until('the next to stand there', async () => (await holding(c, name)) === 1)
    const two = await context.settlesInTime('the last to come in', c.locks.barrier(name, 2).enter())
    const first = await context.settlesInTime('the one before it to come in', one)
    await context.settlesInTime('both to leave', Promise.all([two.leave(), first.leave()]))
    assert.equal(
      ((await context.settlesInTime('it to hear of it', caught)) as { code?: string }).code,
      'LEASE_LOST',
    )
    await context.heal()
  },
} satisfies Record<string, (context: TestContext, client: Client) => Promise<void>>

export function barriers(it: It, { traits, childClient }: Fixture): void {
  if (traits.cells !== true || !traits.modes.includes('shared')) {
    it('are refused when they are made', async (context) => {
      const { locks } = context.client()
      assert.throws(() => locks.barrier(context.name(), 2), { code: 'UNSUPPORTED' })
    })
    return
  }
  for (const [name, test] of Object.entries(kinds)) it(name, (context) => test(context, context.client()))
  if (!traits.shared || childClient === undefined) return

  it('do not wait for a process that was killed with -9 inside', async (context) => {
    const client = context.client()
    const name = context.name()
    // It must still be inside when the other one leaves, even on a busy machine.
    const ttl = Math.max(context.ttl, 2_000)
    const child = acquireInChild(context, childClient, name, ttl, 'barrier')
    const inside = await client.locks.barrier(name, 2).enter(forEver)
    await child.received('granted')
    assert.equal(await notYet(inside.leave({ wait: 20 })), false)
    await child.kill()
    assert.equal(await inside.leave({ wait: 2 * ttl + context.timeout }), true)
    const cell = await getCells(client).read(`barrier:${name}`, new AbortController().signal)
    assert.match(cell?.value ?? '', /"open":false,"members":\[\]/, 'the store keeps a round that is over')
  })
}

/** A store may list expired holders until the next request. */
async function holding({ locks }: Client, name: string): Promise<number> {
  const { holders } = await locks.inspect(name)
  return holders.filter(({ expiresIn }) => expiresIn > 0).length
}
