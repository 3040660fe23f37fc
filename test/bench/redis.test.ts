import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { gaps } from '../../bench/hand-over.js'
import { countCommands } from '../../bench/redis/commands.js'
import { summarize } from '../../bench/redis/fairness.js'
import { bare, barePush } from '../../bench/redis/floors.js'
import { leakCheck } from '../support/leaks.js'
import { connectResp } from '../support/resp.js'
import { startRedis } from '../support/servers/redis.js'

const server = await startRedis()
after(() => server.stop())
after(leakCheck)

test('commands of clients are counted apart from those of scripts', async () => {
  const counter = await countCommands(server.port)
  await using client = await connectResp(server.port)
  await client.send('SET', 'a', '"lua] quoted"')
  await client.send('EVAL', "redis.call('GET', 'a') return redis.call('DEL', 'a')", 0)
  assert.deepEqual(await counter.look(), { sent: 2, inside: 2, byName: { set: 1, eval: 1 } })
  assert.equal((await counter.look()).sent, 0)
  await counter.stop()
})

test('the bare floor excludes and releases, with either client', async () => {
  for (const kind of ['ioredis', 'node-redis'] as const) {
    const floor = await bare(kind).make([server.port])
    const taken = await floor.take('bare')
    await assert.rejects(floor.take('bare'), /is taken/)
    assert.equal(await taken.release(), 1)
    assert.equal(await (await floor.take('bare')).release(), 1)
    await floor.close()
  }
})

test('the push floor hands over in the order of asking', async () => {
  const floor = await barePush.make([server.port])
  const order: number[] = []
  const holder = await floor.take('push')
  const waiting = [1, 2, 3].map(async (n) => {
    const taken = await floor.take('push')
    order.push(n)
    await taken.release()
  })
  await holder.release()
  await Promise.all(waiting)
  assert.deepEqual(order, [1, 2, 3])
  await floor.close()
})

test('gaps lie between a release and the next grant, and two holders are found out', () => {
  const turn = (token: number, granted: number, released: number, waitingSince = 0) => ({
    token,
    waitingSince,
    granted,
    released,
  })
  // The third one was not yet in the queue when the second one let go.
  assert.deepEqual(gaps([turn(2, 12, 20), turn(1, 0, 10), turn(3, 25, 30, 21)]), [2])
  // Where the holder looked, what it saw counts.
  assert.deepEqual(gaps([{ ...turn(1, 0, 10), awaited: true }, turn(2, 12, 20, 11)]), [2])
  assert.deepEqual(gaps([{ ...turn(1, 0, 10), awaited: false }, turn(2, 12, 20)]), [])
  assert.throws(() => gaps([turn(1, 0, 10), turn(2, 9, 20)]), /held at once/)
  assert.throws(() => gaps([turn(2, 0, 10), turn(1, 11, 20)]), /token 1 came after 2/)
})

test('fairness tells who got nothing and who was passed over', () => {
  const fair = summarize(
    [
      {
        taken: 2,
        waits: [
          [0, 10],
          [20, 30],
        ],
      },
      {
        taken: 2,
        waits: [
          [1, 20],
          [21, 40],
        ],
      },
    ],
    1000,
  )
  assert.equal(fair.jain, 1)
  assert.equal(fair.passedOver, 0)
  assert.equal(fair.perSecond, 4)
  const unfair = summarize(
    [
      {
        taken: 3,
        waits: [
          [0, 10],
          [60, 70],
          [100, 110],
        ],
      },
      { taken: 1, waits: [[1, 200]] },
      { taken: 0, waits: [] },
    ],
    1000,
  )
  assert.equal(unfair.starved, 1)
  // Those asked for at 60 and 100 went before the one asked for at 1.
  assert.equal(unfair.passedOver, 2)
  assert.equal(unfair.longest, 199)
  assert.equal(unfair.jain, 16 / (3 * 10))
})
