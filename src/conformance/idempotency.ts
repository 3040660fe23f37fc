/** Clients resend after a reconnect: every message may arrive twice, late, or after its reply was lost. */
import assert from 'node:assert/strict'
import type { Grant } from 'holdfast/driver'
import { type Client, createClaim, createWait } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import type { TestContext } from './test-context.js'

export function repeats(it: It, _fixture: Fixture): void {
  it('give the same token to a repeated claim, one after the other', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const claim = createClaim(a, context.name())
    const first = await take(context, a, claim)
    const second = await take(context, a, claim)
    assert.equal(second.token, first.token)
    await context.assertHeld(b, claim.name)
    assert.equal(await second.release(), 'released')
    await context.assertFree(b, claim.name)
    assert.notEqual(await first.release(), 'released')
  })

  it('give one grant to a claim whose answer was lost, or none', async (context) => {
    const [a, b, c] = [context.client(), context.client(), context.client()]
    const name = context.name()
    const holder = await take(context, b, createClaim(b, name))
    const wait = createWait()
    const asked = a.driver.acquire(createClaim(a, name, { ttl: context.ttl }), wait).catch(() => undefined)
    await context.queued(b, name, 1)
    await context.cut(a)
    await holder.release()
    await context.heal()
    const next = b.driver.acquire(createClaim(b, name), createWait())
    const within = 3 * context.ttl + context.timeout
    const grant = await context.settlesInTime('an answer after the cut', Promise.race([asked, next]), within)
    const { holders } = await c.locks.inspect(name)
    assert.ok(holders.length <= 1, `${holders.length} holders`)
    await grant?.release()
    wait.end()
    for (const late of await context.settlesInTime('both answers', Promise.all([asked, next]), within))
      await late?.release()
    await (await c.locks.mutex(name).acquire({ wait: within })).release()
  })

  it('do not queue a repeated claim behind itself', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const holder = await take(context, b, createClaim(b, name))
    const claim = createClaim(a, name)
    const waits = [createWait(), createWait()] as const
    const answers = [a.driver.acquire(claim, waits[0]), a.driver.acquire(claim, waits[1])]
    await context.queued(b, name, 1)
    await holder.release()
    // Only one of the two may get the reply: the store knows one claim.
    const grant = await context.settlesInTime('one answer', Promise.race(answers))
    assert.ok(grant !== undefined)
    assert.equal(await context.waiters(b, name), 0)
    assert.equal(await grant.release(), 'released')
    for (const wait of waits) wait.end()
    // A call still waiting at the release may have been granted again: that is another grant.
    for (const other of await context.settlesInTime('both answers', Promise.all(answers))) {
      if (other === undefined || other.token === grant.token) continue
      assert.ok(other.token > grant.token, `${other.token} came after ${grant.token}`)
      assert.equal(await other.release(), 'released')
    }
    await context.assertFree(b, name)
  })

  it('answer a repeated release, and never free a later holder by it', async (context) => {
    const [a, b, c] = [context.client(), context.client(), context.client()]
    const name = context.name()
    const first = await take(context, a, createClaim(a, name))
    assert.equal(await first.release(), 'released')
    // A driver may ask the store again or remember the reply; what matters is the effect on others.
    assert.match(await first.release(), /^(already-)?released$/)
    const second = await take(context, b, createClaim(b, name))
    for (let i = 0; i < 3; i++) assert.match(await first.release(), /^(already-)?released$/)
    await context.assertHeld(c, name)
    assert.equal(await second.release(), 'released')
  })

  it('answer two releases under way at once, and free the lock once', async (context) => {
    const [a, b, c] = [context.client(), context.client(), context.client()]
    const name = context.name()
    const first = await take(context, a, createClaim(a, name))
    const [one, two] = [createWait(), createWait()]
    const waiting = [b.driver.acquire(createClaim(b, name), one), c.driver.acquire(createClaim(c, name), two)]
    await context.queued(a, name, 2)
    await Promise.all([first.release(), first.release(), first.release()])
    const granted = await context.settlesInTime('one waiter', Promise.race(waiting))
    await context.queued(a, name, 1)
    const { holders } = await a.locks.inspect(name)
    assert.equal(holders.length, 1, 'one release let two in')
    await granted?.release()
    for (const grant of await context.settlesInTime('the other waiter', Promise.all(waiting)))
      await grant?.release()
  })

  it('do not renew what was released', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const grant = await take(context, a, createClaim(a, name))
    await grant.release()
    assert.equal(await grant.renew(30_000, new AbortController().signal), undefined)
    await context.assertFree(b, name)
  })

  it('let a renewal be repeated, with deadlines that only move forward', async (context) => {
    const client = context.client()
    const grant = await take(
      context,
      client,
      createClaim(client, context.name(), { ttl: Math.max(context.ttl, 10_000) }),
    )
    const begin = grant.validUntil
    const { signal } = new AbortController()
    const first = await grant.renew(30_000, signal)
    const second = await grant.renew(30_000, signal)
    assert.ok(first !== undefined && second !== undefined)
    assert.ok(first >= begin && second >= first)
    assert.ok(grant.validUntil >= second)
    const most = client.env.clock.now() + 30_000
    assert.ok(second < most || second === Number.POSITIVE_INFINITY, 'the deadline lies beyond the ttl')
    await grant.release()
  })

  it('do not let a claim that arrives again after its release hold for long', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const claim = createClaim(a, context.name(), { ttl: context.ttl })
    const grant = await take(context, a, claim)
    await grant.release()
    const wait = createWait('once')
    // For so short a ttl the reply may come too late. What it leaves behind is the same.
    await a.driver.acquire(claim, wait).catch((error) => assert.equal(error.code, 'BACKEND'))
    wait.end()
    const lease = await b.locks.mutex(claim.name).acquire({ wait: 2 * context.ttl + context.timeout })
    await lease.release()
  })

  it('count deadlines from before the request was sent', async (context) => {
    const client = context.client()
    const ttl = 30_000
    for (let i = 0; i < 5; i++) {
      const before = client.env.clock.now()
      const grant = await take(context, client, createClaim(client, context.name(), { ttl }))
      const after = client.env.clock.now()
      const bound = grant.validUntil === Number.POSITIVE_INFINITY ? before : grant.validUntil
      assert.ok(bound <= after + ttl * 0.99 - 1, 'the deadline leaves nothing for drift')
      await grant.release()
    }
  })
}

async function take(
  context: TestContext,
  client: Client,
  claim: ReturnType<typeof createClaim>,
): Promise<Grant> {
  const grant = await context.settlesInTime('a grant', client.driver.acquire(claim, createWait()))
  assert.ok(grant !== undefined, 'the driver gave nothing although the wait had not ended')
  return grant
}
