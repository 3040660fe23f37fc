// The lab's own requests to Redis servers, which distinguish a starved server from a slow lock.
// Second tier because it tests a tool of the lab and starts nine servers.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { clusterAnswers, majorityAnswers, serverAnswers } from '../../lab/faults/redis-answers.js'
import { leakCheck } from '../support/leaks.js'
import { startMany, startRedis } from '../support/servers/redis.js'
import { startCluster } from '../support/servers/redis-cluster.js'

/** Nothing answers in this time on a machine that stalls either; what has to answer gets ten seconds. */
const soon = () => AbortSignal.timeout(500)
const inTime = () => AbortSignal.timeout(10_000)
const late = { name: 'TimeoutError' }

test('a frozen server does not reply, and replies again when it wakes up', async () => {
  await using server = await startRedis()
  const answers = serverAnswers([server])
  await answers(inTime())
  server.pause()
  await assert.rejects(answers(soon()), late)
  server.resume()
  await answers(inTime())
})

test('of independent servers more than half have to answer', async () => {
  const { servers, stop } = await startMany(5)
  try {
    const answers = majorityAnswers(servers)
    for (const server of servers.slice(0, 2)) server.pause()
    await answers(inTime())
    servers[2]?.pause()
    await assert.rejects(answers(soon()), late)
    for (const server of servers.slice(0, 3)) server.resume()
    await Promise.all(servers.slice(2).map((server) => server.kill9()))
    await assert.rejects(answers(inTime()), /2 of 5 answered/)
  } finally {
    await stop()
  }
})

test('of a Cluster every master has to answer', async () => {
  await using setup = await startCluster({ nodeTimeout: 30_000 })
  const answers = clusterAnswers(setup.nodes)
  await answers(inTime())
  for (const master of setup.masters) {
    master.pause()
    await assert.rejects(answers(soon()), late)
    master.resume()
  }
  await answers(inTime())
})

after(leakCheck)
