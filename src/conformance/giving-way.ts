/**
 * Tests of revocation and of handing a lock over.
 * Long because revoking a lock and handing it over are two sides of one hold.
 */
import assert from 'node:assert/strict'
import type { RevokeRequest } from 'holdfast'
import { acquireInChild, startUp } from './child-process.js'
import type { Client } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import type { TestContext } from './test-context.js'

const revoking = {
  'asks the holder first, which may release in time': async (context, a) => {
    const [b, c, name] = [context.client(), context.client(), context.name()]
    assert.equal(await b.locks.revoke(name), 'free')
    const lease = await a.locks.mutex(name).acquire()
    const asked: RevokeRequest[] = []
    const events: string[] = []
    a.locks.on('revokeRequested', ({ token }) => events.push(String(token)))
    a.locks.onRevoke(lease, (request) => {
      asked.push(request)
      void lease.release()
    })
    // Queued behind it in the same process: it must not inherit the revoked lock.
    const successor = a.locks.mutex(name).acquire()
    const outcome = await context.settlesInTime(
      'it to give way',
      b.locks.revoke(name, { grace: 30_000, why: 'deploy' }),
    )
    assert.equal(outcome, 'released')
    assert.deepEqual(
      asked.map(({ grace, why }) => [grace, why]),
      [[30_000, 'deploy']],
    )
    assert.deepEqual(events, [String(lease.token)])
    await (await successor).release()
    await context.assertFree(c, name)
  },

  'forces the release when the grace is over': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    const lease = await a.locks.mutex(name).acquire()
    const asked: number[] = []
    a.locks.onRevoke(lease, ({ grace }) => asked.push(grace))
    const reason = new Error('asked somebody else')
    const impatient = new AbortController()
    const first = b.locks.revoke(name, { grace: 60_000, signal: impatient.signal })
    await context.until('the holder to be asked', () => asked.length === 1)
    impatient.abort(reason)
    await assert.rejects(first, (error) => error === reason)
    assert.equal(lease.isHeld, true, 'who asked has gone, and nobody forces it')
    // A holder that is notified of this one too late is force-released anyway.
    assert.equal(await b.locks.revoke(name, { grace: 400 }), 'forced')
    assert.deepEqual(asked.slice(0, 2), [60_000, 400].slice(0, asked.length))
    assert.ok(asked.length <= 2, 'each request is told once')
    // A renewal may be answered with a proof from a moment before the forced release.
    await context.until('the holder to know', () =>
      lease.extend().then(
        () => false,
        ({ code }) => {
          assert.equal(code, 'LEASE_LOST')
          return true
        },
      ),
    )
    assert.equal(lease.state, 'lost')
    await context.assertFree(b, name)
  },

  'does not concern later holders': async (context, a) => {
    const [b, c, name] = [context.client(), context.client(), context.name()]
    const lease = await a.locks.mutex(name).acquire()
    const next = b.locks.mutex(name).acquire()
    await context.queued(c, name, 1)
    const requested = new Promise<void>((resolve) => void a.locks.onRevoke(lease, () => resolve()))
    const revoked = c.locks.revoke(name, { grace: 30_000 })
    // If it were released earlier, the request could find the next waiter as holder.
    await context.settlesInTime('the holder to be asked', requested)
    await lease.release()
    const mine = await next
    assert.equal(await context.settlesInTime('it to be told', revoked), 'released')
    let asked = 0
    b.locks.onRevoke(mine, () => asked++)
    await context.assertHeld(c, name)
    assert.equal(mine.isHeld, true)
    assert.equal(asked, 0)
    await mine.release()
  },
} satisfies Record<string, (context: TestContext, client: Client) => Promise<void>>

const handing = {
  'keeps lease and token, and works once': async (context, a) => {
    const [b, c, name] = [context.client(), context.client(), context.name()]
    const lease = await a.locks.mutex(name).acquire({ note: 'order 42' })
    const ticket = await a.locks.export(lease)
    assert.deepEqual(
      [lease.isHeld, lease.state, await lease.release()],
      [false, 'released', 'already-released'],
    )
    await context.assertHeld(c, name)
    const tries = await Promise.allSettled([b, c, b].map(({ locks }) => locks.adopt(ticket)))
    const won = tries.filter((one) => one.status === 'fulfilled')
    assert.equal(won.length, 1)
    for (const one of tries)
      if (one.status === 'rejected') assert.match(String(one.reason.cause), /adopted before/)
    const adopted = won[0]?.value
    assert.ok(adopted)
    assert.equal(adopted.token, lease.token)
    assert.equal(adopted.isHeld, true)
    await context.assertHeld(a, name)
    assert.ok((await adopted.extend()) > 0)
    assert.equal(await adopted.release(), 'released')
    await context.assertFree(a, name)
    await assert.rejects(c.locks.adopt(ticket), { code: 'LEASE_LOST' })
  },

  'keeps a token that was handed over inside the first process, and later ones are greater': async (
    context,
    a,
  ) => {
    const [b, name] = [context.client(), context.name()]
    const tokens: number[] = []
    const first = await a.locks.mutex(name).acquire()
    const second = a.locks.mutex(name).acquire()
    await first.release()
    const lease = await second
    tokens.push(first.token, lease.token)
    const adopted = await b.locks.adopt(await a.locks.export(lease))
    assert.equal(adopted.token, lease.token)
    const successor = b.locks.mutex(name).acquire()
    await adopted.release()
    tokens.push((await successor).token)
    await (await successor).release()
    for (const [i, token] of tokens.entries()) assert.ok(token > (tokens[i - 1] ?? 0), `${tokens}`)
  },

  'fails when it comes too late': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    // A renewal attempt may take a sixth of that, even on a busy machine.
    const ttl = Math.max(context.ttl, 2_000)
    const ticket = await a.locks.export(await a.locks.mutex(name).acquire({ ttl }))
    const next = await b.locks.mutex(name).acquire({ wait: 2 * ttl + context.timeout })
    await assert.rejects(a.locks.adopt(ticket), { code: 'LEASE_LOST' })
    assert.equal(next.isHeld, true)
    await next.release()
    await assert.rejects(a.locks.adopt('nonsense'), /takes the text that export\(\) gave/)
  },

  'outlives the process that took it': async (context, a) => {
    const [b, c, name] = [context.client(), context.client(), context.name()]
    const ticket = await a.locks.export(await a.locks.mutex(name).acquire())
    const adopted = await b.locks.adopt(ticket)
    await a.locks.close()
    await context.assertHeld(c, name)
    assert.ok((await adopted.extend()) > 0)
    await adopted.release()
  },
} satisfies Record<string, (context: TestContext, client: Client) => Promise<void>>

export function revocation(it: It, { traits, childClient }: Fixture): void {
  if (traits.cells !== true) {
    it('is refused without cells', async (context) => {
      const { locks } = context.client()
      await assert.rejects(locks.revoke(context.name()), { code: 'UNSUPPORTED' })
    })
    return
  }
  for (const [name, test] of Object.entries(revoking)) it(name, (context) => test(context, context.client()))
  if (!traits.shared || childClient === undefined) return

  it('is over when the holder is killed with -9 after it was asked', async (context) => {
    const client = context.client()
    const name = context.name()
    // It must still hold when it is asked, even on a busy machine.
    const ttl = Math.max(context.ttl, 2_000)
    const child = acquireInChild(context, childClient, name, ttl, 'revocable')
    await child.received('granted')
    const outcome = client.locks.revoke(name, { grace: 60_000 })
    const early = await Promise.race([child.received('waiting').then(() => undefined), outcome])
    assert.equal(early, undefined, 'its hold was over before it was asked')
    await child.kill()
    assert.equal(await context.settlesInTime('it to be told', outcome, 2 * ttl + context.timeout), 'released')
    await context.assertFree(client, name)
  })

  it('leaves the holder alone when the one that asked is killed with -9, and the next may ask', async (context) => {
    const [a, b, name] = [context.client(), context.client(), context.name()]
    const lease = await a.locks.mutex(name).acquire()
    const asked: (string | undefined)[] = []
    a.locks.onRevoke(lease, ({ why }) => asked.push(why))
    const child = acquireInChild(context, childClient, name, context.ttl, 'revoker')
    await context.until('the holder to be asked', () => asked.length === 1, startUp)
    await child.kill()
    assert.equal(lease.isHeld, true)
    const again = b.locks.revoke(name, { grace: 60_000, why: 'again' })
    await context.until('it to be asked again', () => asked.length === 2)
    await lease.release()
    assert.equal(await context.settlesInTime('the second to be told', again), 'released')
    assert.deepEqual(asked, ['asked by one that dies', 'again'])
  })
}

export function handOver(it: It, { traits, childClient }: Fixture): void {
  if (traits.cells !== true || traits.portable !== true) {
    it('is refused where holds are bound to processes', async (context) => {
      const { locks } = context.client()
      const lease = await locks.mutex(context.name()).acquire()
      await assert.rejects(locks.export(lease), { code: 'UNSUPPORTED' })
      assert.equal(lease.isHeld, true)
      await lease.release()
    })
    return
  }
  for (const [name, test] of Object.entries(handing)) it(name, (context) => test(context, context.client()))
  if (!traits.shared || childClient === undefined) return

  it('is not undone when the process that took it is killed with -9', async (context) => {
    const [a, b, name] = [context.client(), context.client(), context.name()]
    // Nothing may expire here: a renewal may take a sixth of the ttl.
    const child = acquireInChild(context, childClient, name, 30_000, 'export')
    const { token, ticket = '' } = await child.received('granted')
    const adopted = await a.locks.adopt(ticket)
    await child.kill()
    assert.equal(adopted.token, token)
    assert.ok((await adopted.extend()) > 0)
    await context.assertHeld(b, name)
    await adopted.release()
  })
}
