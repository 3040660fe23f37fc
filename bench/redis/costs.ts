/**
 * The cost of an acquire and release on each side, in µs: a ratio of rates shows that there is a difference, this shows where. Processor
 * time, not wall-clock time: other load on the machine matters less.
 */
import { connectResp } from '../../test/support/resp.js'
import type { Effort, Work } from '../rounds.js'
import { spread } from '../spread.js'

export interface Cost {
  /** Time in the commands that clients sent, by the server's own count; excludes receiving and replying. */
  readonly server: number
  /** Processor time of this process, user and system. */
  readonly client: number
}

/** The medians of several rounds. `sent`: the counted commands, named as in `INFO commandstats`. */
export async function measureCost(
  work: Work,
  port: number,
  sent: readonly string[],
  { rounds, fixed }: Effort,
): Promise<Cost> {
  const pairs = fixed ?? 2_048
  const [server, client]: number[][] = [[], []]
  await using admin = await connectResp(port)
  await work(pairs)
  for (let round = 0; round < rounds; round++) {
    const before = sumTime(String(await admin.send('INFO', 'commandstats')), sent)
    const began = process.cpuUsage()
    await work(pairs)
    const { user, system } = process.cpuUsage(began)
    const after = sumTime(String(await admin.send('INFO', 'commandstats')), sent)
    server?.push((after - before) / pairs)
    client?.push((user + system) / pairs)
  }
  return { server: spread(server ?? []).median, client: spread(client ?? []).median }
}

function sumTime(stats: string, commands: readonly string[]): number {
  let sum = 0
  for (const [, name = '', usec] of stats.matchAll(/^cmdstat_(\w+):calls=\d+,usec=(\d+)/gm))
    if (commands.includes(name)) sum += Number(usec)
  return sum
}
