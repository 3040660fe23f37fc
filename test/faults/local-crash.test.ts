// Holders, waiters and the broker's own process die, on both kinds of socket.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { brokerOf, endAll, freshDirectory, start } from '../drivers/local/processes.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'

/** Much longer than a wait: a waiter that is served earlier has not waited for the end of the lease. */
const ttl = 300_000

for (const socket of ['abstract', 'file'] as const) {
  const place = () => ({ directory: freshDirectory(), socket })

  describe(`local over ${socket} sockets`, () => {
    test('a holder killed with -9 makes room for the next one long before its ttl', async () => {
      const options = place()
      const [broker, holder, waiter] = [await start(options), await start(options), await start(options)]
      await broker.acquire('who-runs-the-broker')
      const held = await holder.acquire('x', { ttl })
      const next = waiter.acquire('x')
      await until(async () => (await broker.waiters('x')) === 1)
      await holder.kill()
      const taken = await next
      assert.ok(taken.token > held.token)
      assert.ok(taken.at - held.at < ttl)
    })

    test('a killed holder that has left a child behind does not keep the lock', async () => {
      const options = place()
      const [broker, holder] = [await start(options), await start(options)]
      await broker.acquire('who-runs-the-broker')
      await holder.acquire('x', { ttl })
      const orphan = await holder.bear()
      try {
        await holder.kill()
        await broker.acquire('x')
      } finally {
        process.kill(orphan, 'SIGKILL')
      }
    })

    test('when the process of the broker is killed, another takes over and every lease is kept', async () => {
      const options = place()
      const [broker, holder, waiter] = [await start(options), await start(options), await start(options)]
      await broker.acquire('who-runs-the-broker')
      assert.equal(brokerOf(options.directory), broker.pid)
      const held = await holder.acquire('x')
      const next = waiter.acquire('x')
      await until(async () => (await broker.waiters('x')) === 1)
      await broker.kill()
      await until(() => [holder.pid, waiter.pid].includes(brokerOf(options.directory)))
      const other = await start(options)
      assert.equal(await other.tryAcquire('x'), undefined)
      assert.equal(await holder.state(held), 'held')
      assert.equal(await holder.aborted(held), false)
      assert.equal(await holder.release(held), 'released')
      const taken = await next
      assert.ok(taken.token > held.token)
    })

    test('a holder that also ran the broker dies as a whole', async () => {
      const options = place()
      const [holder, waiter] = [await start(options), await start(options)]
      const held = await holder.acquire('x', { ttl })
      const next = waiter.acquire('x')
      await until(async () => (await holder.waiters('x')) === 1)
      await holder.kill()
      const taken = await next
      assert.ok(taken.token > held.token)
      assert.ok(taken.at - held.at < ttl)
      assert.equal(brokerOf(options.directory), waiter.pid)
    })

    test('waiters keep their order when the broker dies', async (context) => {
      const options = place()
      const [broker, holder] = [await start(options), await start(options)]
      await broker.acquire('who-runs-the-broker')
      const held = await holder.acquire('x')
      // It stays: one that comes and goes may become the broker, and take the order with it when it goes.
      const looker = createLocks(local(options))
      context.after(() => looker.close())
      const inLine = (count: number) =>
        until(async () => (await looker.inspect('x')).waiters.length >= count, { within: 60_000 })
      const order: number[] = []
      const waiters = []
      for (let i = 0; i < 5; i++) {
        const waiter = await start(options)
        waiters.push(
          waiter.acquire('x').then(async (taken) => {
            order.push(i)
            await waiter.release(taken)
          }),
        )
        await inLine(i + 1)
      }
      await broker.kill()
      await inLine(5)
      await holder.release(held)
      await Promise.all(waiters)
      assert.deepEqual(order, [0, 1, 2, 3, 4])
    })

    test('a broker whose process closes its locks hands over cleanly', async () => {
      const options = place()
      const [broker, holder] = [await start(options), await start(options)]
      await broker.acquire('who-runs-the-broker')
      const held = await holder.acquire('x')
      await broker.close()
      const other = await start(options)
      assert.equal(await other.tryAcquire('x'), undefined)
      assert.notEqual(brokerOf(options.directory), broker.pid)
      assert.equal(await holder.release(held), 'released')
      assert.ok(await other.tryAcquire('x'))
    })

    test('a stopped holder has lost the lock after its ttl, and knows when it wakes up', async () => {
      const options = place()
      const [broker, holder] = [await start(options), await start(options)]
      await broker.acquire('who-runs-the-broker')
      const held = await holder.acquire('x', { ttl: 300 })
      holder.stop()
      const taken = await broker.acquire('x')
      holder.go()
      assert.ok(taken.token > held.token)
      assert.equal(await holder.state(held), 'lost')
      assert.deepEqual(
        await holder.losses(),
        ['expired'],
        'although it may read the message of the broker first',
      )
      assert.equal(await holder.release(held), 'lost')
      assert.equal(await broker.state(taken), 'held')
    })

    test('a process whose event loop is blocked does not stop the broker in it', async () => {
      const options = place()
      const [broker, other] = [await start(options), await start(options)]
      await broker.acquire('who-runs-the-broker')
      await other.acquire('warm')
      // Far longer than anybody waits for a lock.
      await broker.block(600_000)
      for (let i = 0; i < 20; i++) await other.release(await other.acquire('x'))
      await broker.kill()
    })
  })
}

after(async () => {
  await endAll()
  await leakCheck()
})
