import assert from 'node:assert/strict'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'

export function localQueue(it: It, _fixture: Fixture): void {
  it('cost the store one waiter, and all are served', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const lease = await b.locks.mutex(name).acquire()
    let inside = 0
    let served = 0
    const all = Promise.all(
      Array.from({ length: 1_000 }, () =>
        a.locks.mutex(name).run(
          async () => {
            assert.equal(++inside, 1)
            await Promise.resolve()
            inside--
            served++
          },
          { wait: Number.POSITIVE_INFINITY },
        ),
      ),
    )
    await stage.inLine(b, name, 1)
    assert.equal(await stage.waiters(b, name), 1)
    assert.equal(a.asked(), 1)
    await lease.release()
    await all
    assert.equal(served, 1_000)
  })

  it('take the place in line over from one that gives up', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const lease = await b.locks.mutex(name).acquire()
    const stop = new AbortController()
    const first = assert.rejects(a.locks.mutex(name).acquire({ signal: stop.signal }), { message: 'gone' })
    await stage.inLine(b, name, 1)
    const second = a.locks.mutex(name).acquire()
    stop.abort(new Error('gone'))
    await first
    await lease.release()
    await (await stage.soon('the second request', second)).release()
  })

  it('each keep their own deadline', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const lease = await b.locks.mutex(name).acquire()
    const timedOut = { code: 'ACQUIRE_TIMEOUT' }
    const patient = a.locks.mutex(name).acquire()
    const waits = [20, 60, 100].map((wait) => assert.rejects(a.locks.mutex(name).acquire({ wait }), timedOut))
    await stage.soon('three deadlines', Promise.all(waits))
    await lease.release()
    await (await stage.soon('the patient one', patient)).release()
  })
}
