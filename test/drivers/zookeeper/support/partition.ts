// A partition that cuts clients off together with the server they talk to. How long do they believe to hold what another has got?
import { createLocks, type DriverFactory, type Lease, type Locks } from 'holdfast'
import { zookeeper } from '../../../../src/drivers/zookeeper/index.js'
import { type Ensemble, startEnsemble } from '../../../support/servers/zookeeper.js'
import { type EnsembleCables, ensembleCables } from '../../../support/servers/zookeeper-cables.js'
import { until } from '../../../support/until.js'

export interface PartitionOptions {
  readonly tickTime: number
  readonly sessionTimeout: number
  /** Which server is cut off from the other two, with the clients that talk to it. */
  readonly who: 'follower' | 'leader'
  /** The process is paused for that long before, in ms. Default 0. */
  readonly stall?: number
  /** Clients that are cut off, each with a session and a lock of its own. Default 8. */
  readonly clients?: number
  /** Ticks after which the servers notice. Default: long after the session for a follower, 5 for a leader. */
  readonly syncLimit?: number
}

export interface PartitionServers extends AsyncDisposable {
  /**
   * One partition, healed in the end.
   * @returns for each client, for how many ms it kept believing that it held what another client had been granted; negative: it knew before
   */
  round(): Promise<readonly number[]>
}

export async function startPartition(options: PartitionOptions): Promise<PartitionServers> {
  const { tickTime, sessionTimeout, who } = options
  const { syncLimit = who === 'leader' ? 5 : Math.ceil((2 * sessionTimeout) / tickTime) } = options
  const cables = ensembleCables()
  const ensemble = await startEnsemble({
    tickTime,
    config: ['maxSessionTimeout=120000', `syncLimit=${syncLimit}`],
    between: cables.between,
    betweenElections: cables.betweenElections,
  })
  return {
    round: () => oneRound(options, ensemble, cables),
    async [Symbol.asyncDispose]() {
      await ensemble.stop()
      await cables.stop()
    },
  }
}

async function oneRound(
  { tickTime, sessionTimeout, who, stall = 0, clients = 8 }: PartitionOptions,
  ensemble: Ensemble,
  cables: EnsembleCables,
): Promise<readonly number[]> {
  await straighten(ensemble)
  const leader = await ensemble.leader()
  const [follower, other] = await ensemble.followers()
  if (follower === undefined || other === undefined) throw new Error('two followers expected')
  const cut = who === 'leader' ? leader : follower
  const rest = ensemble.servers.filter((server) => server !== cut).map(({ address }) => address)
  const open = (servers: string | readonly string[], timeout: number): Locks =>
    createLocks(zookeeper({ servers, sessionTimeout: timeout, tickTime }) as DriverFactory)
  const inside = Array.from({ length: clients }, () => open(cut.address, sessionTimeout))
  const outside = open(rest, 60_000)
  const at = ensemble.servers.indexOf(cut)
  let heal = () => {}
  try {
    // One after the other, so that their heartbeats are spread.
    const leases: Lease[] = []
    for (const [i, locks] of inside.entries()) {
      leases.push(await locks.mutex(`${i}`).acquire())
      await pause(sessionTimeout / 6 / clients)
    }
    const over = leases.map(async (lease, i) => {
      const next = await outside.mutex(`${i}`).acquire({ wait: 240_000 })
      const left = lease.isHeld ? lease.remaining() : -1
      await next.release()
      return left
    })
    await until(async () => (await outside.list('')).every(({ waiters }) => waiters.length === 1))
    await pause(sessionTimeout / 3 + Math.random() * 2 * tickTime)
    if (stall > 0) standStill(stall)
    // A heartbeat, as many as are due, and their answers.
    await pause(20 + (Math.random() * sessionTimeout) / 6)
    heal = cables.isolate(at)
    return await Promise.all(over)
  } finally {
    heal()
    await Promise.all([...inside, outside].map((locks) => locks.close()))
  }
}

/**
 * A server that is called by one with a smaller number for an election hangs up and calls back, at the address that one tells: past the cables. Such
 * a connection outlives a partition, and then everybody votes for a leader whom nobody can follow. One that starts after those with
 * smaller numbers calls them itself, through the cables.
 */
async function straighten(ensemble: Ensemble): Promise<void> {
  for (const server of [undefined, ...ensemble.servers.slice(1)]) {
    await server?.restart()
    await until(async () => (await ensemble.followers()).length === 2, {
      within: 60_000,
      what: 'two servers to follow the third',
    })
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
