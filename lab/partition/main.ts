/**
 * Partitions of a ZooKeeper ensemble that cut clients off together with their server: `node build/lab/partition/main.js TICK SESSION follower|leader STALL ROUNDS`,
 * times in ms. One line for each round: for how long the worst of its clients believed to hold what another had been granted.
 */
import { type PartitionOptions, startPartition } from '../../test/drivers/zookeeper/support/partition.js'

const [tickTime = 500, sessionTimeout = 10_000, who = 'follower', stall = 0, rounds = 3] = process.argv
  .slice(2)
  .map((text) => (/^\d+$/.test(text) ? Number(text) : text)) as [
  number,
  number,
  PartitionOptions['who'],
  number,
  number,
]

await using servers = await startPartition({ tickTime, sessionTimeout, who, stall })
for (let round = 0; round < rounds; round++) {
  const over = await servers.round()
  process.stdout.write(`${tickTime} ${sessionTimeout} ${who} ${stall}: ${Math.round(Math.max(...over))} ms\n`)
}
