// Runs alone because a busy machine delays the servers' reports, on which this test depends.
//
// A client that is cut off together with its server is still answered by it. It must have lost its lease before another has the lock.
// The same with ticks of 2 s, sessions of 10, 20 and 40 s: `node build/lab/partition/main.js`, figures in lab/results/2026-11-22-zookeeper-partitions.md.
// Second tier because a cluster is a topology of its own, and its leaders take a while to be replaced.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type PartitionOptions, startPartition } from '../drivers/zookeeper/support/partition.js'
import { leakCheck } from '../support/leaks.js'

const short = { tickTime: 500, sessionTimeout: 5_000, clients: 12 } as const

async function apart(options: PartitionOptions, rounds: number): Promise<void> {
  await using servers = await startPartition(options)
  for (let round = 0; round < rounds; round++) {
    const over = await servers.round()
    assert.ok(Math.max(...over) < 0, `believed for so many ms beside the next holder: ${over}`)
  }
}

test('clients cut off together with their follower know that they have lost before another has the lock', () =>
  apart({ ...short, who: 'follower' }, 3))

test('so do they after a short pause right before', () =>
  apart({ ...short, who: 'follower', stall: 2_500 }, 1))

test('clients cut off together with a replaced leader that does not know it lose their leases in time', () =>
  apart({ ...short, who: 'leader' }, 2))

after(leakCheck)
