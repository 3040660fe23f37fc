/**
 * The time `holdfast run x -- true` takes, beside Node's own start and beside the tools that do the same: `flock`, `etcdctl lock`,
 * `consul lock`. Every lock is free. One run of each command makes a round, so that all of them meet the same machine.
 *
 * Processor time is that of a command and the children it waited for. `holdfast run` does not wait for the process that held its lock,
 * which ends a moment later: its time is not in it.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { manifest, root } from '../../test/support/checkout.js'
import { consulProgram, startConsul } from '../../test/support/servers/consul.js'
import { etcdctl, startEtcd } from '../../test/support/servers/etcd.js'
import { startPostgres } from '../../test/support/servers/postgres.js'
import { startRedis } from '../../test/support/servers/redis.js'
import { startZookeeper } from '../../test/support/servers/zookeeper.js'
import type { Comparison } from '../figure.js'
import { ratio } from '../rounds.js'
import { spread } from '../spread.js'
import type { Scale } from '../suite.js'

interface Command {
  readonly tool: string
  readonly what: string
  readonly argv: readonly string[]
}

interface Taken {
  /** In ms. */
  readonly wall: number
  readonly processor: number
}

const holdfast = join(root, manifest.bin['holdfast'] ?? '')

export async function measureCli({ effort: { rounds } }: Scale): Promise<readonly Comparison[]> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-bench-'))
  await using redis = await startRedis({ isNew: true })
  await using postgres = await startPostgres()
  await using zookeeper = await startZookeeper()
  await using etcd = await startEtcd()
  await using consul = await startConsul()
  const etcdAt = `${etcd.host}:${etcd.port}`
  const consulAt = `${consul.host}:${consul.port}`
  const node = (...args: string[]) => [process.execPath, ...args]
  const run = (on: string): Command => {
    const [scheme = ''] = on.split(':')
    return {
      ...{ tool: 'holdfast run', what: scheme },
      argv: node(holdfast, 'run', 'x', '--on', on, '--', 'true'),
    }
  }
  const commands: Command[] = [
    { tool: 'node', what: '-e 0', argv: node('-e', '0') },
    { tool: 'holdfast', what: '--version', argv: node(holdfast, '--version') },
    ...[`local:${join(folder, 'locks')}`, redis.url, postgres.url].map(run),
    ...[`zookeeper://${zookeeper.address}`, `etcd://${etcdAt}`, `consul://${consulAt}`].map(run),
    { tool: 'flock', what: 'a file', argv: ['flock', join(folder, 'file'), 'true'] },
    {
      ...{ tool: 'etcdctl lock', what: 'etcd' },
      argv: [await etcdctl(), `--endpoints=http://${etcdAt}`, 'lock', 'theirs', 'true'],
    },
    {
      ...{ tool: 'consul lock', what: 'consul' },
      argv: [await consulProgram(), 'lock', `-http-addr=http://${consulAt}`, 'theirs', 'true'],
    },
  ]
  try {
    return [compare(commands, rounds)]
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

function compare(commands: readonly Command[], rounds: number): Comparison {
  const taken = commands.map((): Taken[] => [])
  // The first round fills caches and makes tables.
  for (let round = -1; round < rounds; round += 1)
    for (const [i, { argv }] of commands.entries()) {
      const one = timed(argv)
      if (round >= 0) taken[i]?.push(one)
    }
  const [floor = []] = taken
  const of = (all: readonly Taken[], what: keyof Taken) => all.map((one) => one[what])
  return {
    suite: 'cli',
    what: 'one command under a free lock',
    columns: ['ms', 'of `node -e 0`', 'ms of processor', 'of `node -e 0`'],
    rows: commands.map(({ tool, what }, i) => {
      const all = taken[i] ?? []
      const columns = (['wall', 'processor'] as const).flatMap((kind) => [
        spread(of(all, kind)),
        ratio(of(all, kind), of(floor, kind)),
      ])
      return { library: tool, settings: what, values: columns }
    }),
  }
}

/** @throws Error if the command fails */
function timed([file = '', ...args]: readonly string[]): Taken {
  const script = `TIMEFORMAT='%U %S'; time "$0" "$@"`
  const began = performance.now()
  const { status, stderr } = spawnSync('bash', ['-c', script, file, ...args], { encoding: 'utf8' })
  const wall = performance.now() - began
  if (status !== 0) throw new Error(`${file} ${args.join(' ')} ended with ${status}: ${stderr}`)
  const [user = 0, system = 0] = (stderr.trim().split('\n').at(-1) ?? '').split(' ').map(Number)
  return { wall, processor: 1_000 * (user + system) }
}
