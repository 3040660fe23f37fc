/** Clients resend after a reconnect: every message may arrive twice, late, or after its reply was lost. */
import assert from 'node:assert/strict'
import type { Grant } from 'holdfast/driver'
import { type Client, claimOf, waitOf } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import type { TestContext } from './test-context.js'

export function repeats(it: It, _fixture: Fixture): void {
  it('give the same token to a repeated claim, one after the other', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const claim = claimOf(a, stage.name())
    const first = await take(stage, a, claim)
    const second = await take(stage, a, claim)
    assert.equal(second.token, first.token)
    await stage.assertTaken(b, claim.name)
    assert.equal(await second.release(), 'released')
    await stage.assertFree(b, claim.name)
    assert.notEqual(await first.release(), 'released')
  })

  it('give one grant to a claim whose answer was lost, or none', async (stage) => {
    const [a, b, c] = [stage.client(), stage.client(), stage.client()]
    const name = stage.name()
    const holder = await take(stage, b, claimOf(b, name))
    const wait = waitOf()
    const asked = a.driver.acquire(claimOf(a, name, { ttl: stage.ttl }), wait).catch(() => undefined)
    await stage.queued(b, name, 1)
    await stage.cut(a)
    await holder.release()
    await stage.heal()
    const next = b.driver.acquire(claimOf(b, name), waitOf())
    const within = 3 * stage.ttl + stage.timeout
    const grant = await stage.settlesInTime('an answer after the cut', Promise.race([asked, next]), within)
    const { holders } = await c.locks.inspect(name)
    assert.ok(holders.length <= 1, `${holders.length} holders`)
    await grant?.release()
    wait.end()
    for (const late of await stage.settlesInTime('both answers', Promise.all([asked, next]), within))
      await late?.release()
    await (await c.locks.mutex(name).acquire({ wait: within })).release()
  })

  it('do not put a repeated claim in line behind itself', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const holder = await take(stage, b, claimOf(b, name))
    const claim = claimOf(a, name)
    const waits = [waitOf(), waitOf()] as const
    const answers = [a.driver.acquire(claim, waits[0]), a.driver.acquire(claim, waits[1])]
    await stage.queued(b, name, 1)
    await holder.release()
    // Only one of the two may get the reply: the store knows one claim.
    const grant = await stage.settlesInTime('one answer', Promise.race(answers))
    assert.ok(grant !== undefined)
    assert.equal(await stage.waiters(b, name), 0)
    assert.equal(await grant.release(), 'released')
    for (const wait of waits) wait.end()
    // A call still waiting at the release may have been granted again: that is another grant.
    for (const other of await stage.settlesInTime('both answers', Promise.all(answers))) {
      if (other === undefined || other.token === grant.token) continue
      assert.ok(other.token > grant.token, `${other.token} came after ${grant.token}`)
      assert.equal(await other.release(), 'released')
    }
    await stage.assertFree(b, name)
  })

  it('answer a repeated release, and never free a later holder by it', async (stage) => {
    const [a, b, c] = [stage.client(), stage.client(), stage.client()]
    const name = stage.name()
    const first = await take(stage, a, claimOf(a, name))
    assert.equal(await first.release(), 'released')
    // A driver may ask the store again or remember the reply; what matters is the effect on others.
    assert.match(await first.release(), /^(already-)?released$/)
    const second = await take(stage, b, claimOf(b, name))
    for (let i = 0; i < 3; i++) assert.match(await first.release(), /^(already-)?released$/)
    await stage.assertTaken(c, name)
    assert.equal(await second.release(), 'released')
  })

  it('answer two releases under way at once, and free the lock once', async (stage) => {
    const [a, b, c] = [stage.client(), stage.client(), stage.client()]
    const name = stage.name()
    const first = await take(stage, a, claimOf(a, name))
    const [one, two] = [waitOf(), waitOf()]
    const waiting = [b.driver.acquire(claimOf(b, name), one), c.driver.acquire(claimOf(c, name), two)]
    await stage.queued(a, name, 2)
    await Promise.all([first.release(), first.release(), first.release()])
    const granted = await stage.settlesInTime('one waiter', Promise.race(waiting))
    await stage.queued(a, name, 1)
    const { holders } = await a.locks.inspect(name)
    assert.equal(holders.length, 1, 'one release let two in')
    await granted?.release()
    for (const grant of await stage.settlesInTime('the other waiter', Promise.all(waiting)))
      await grant?.release()
  })

  it('do not renew what was released', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const grant = await take(stage, a, claimOf(a, name))
    await grant.release()
    assert.equal(await grant.renew(30_000, new AbortController().signal), undefined)
    await stage.assertFree(b, name)
  })

  it('let a renewal be repeated, with deadlines that only move forward', async (stage) => {
    const client = stage.client()
    const grant = await take(
      stage,
      client,
      claimOf(client, stage.name(), { ttl: Math.max(stage.ttl, 10_000) }),
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

  it('do not let a claim that arrives once more after its release hold for long', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const claim = claimOf(a, stage.name(), { ttl: stage.ttl })
    const grant = await take(stage, a, claim)
    await grant.release()
    const wait = waitOf('once')
    // For so short a ttl the reply may come too late. What it leaves behind is the same.
    await a.driver.acquire(claim, wait).catch((error) => assert.equal(error.code, 'BACKEND'))
    wait.end()
    const lease = await b.locks.mutex(claim.name).acquire({ wait: 2 * stage.ttl + stage.timeout })
    await lease.release()
  })

  it('count deadlines from before the request was sent', async (stage) => {
    const client = stage.client()
    const ttl = 30_000
    for (let i = 0; i < 5; i++) {
      const before = client.env.clock.now()
      const grant = await take(stage, client, claimOf(client, stage.name(), { ttl }))
      const after = client.env.clock.now()
      const bound = grant.validUntil === Number.POSITIVE_INFINITY ? before : grant.validUntil
      assert.ok(bound <= after + ttl * 0.99 - 1, 'the deadline leaves nothing for drift')
      await grant.release()
    }
  })
}

async function take(stage: TestContext, client: Client, claim: ReturnType<typeof claimOf>): Promise<Grant> {
  const grant = await stage.settlesInTime('a grant', client.driver.acquire(claim, waitOf()))
  assert.ok(grant !== undefined, 'the driver gave nothing although the wait had not ended')
  return grant
}
