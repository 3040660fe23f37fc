/** Locks over several independent servers: pairs of acquire and release, one by one, each timed. */
import type { RedisGroup } from '../../test/support/servers/redis.js'
import { type Effort, type Rates, takeTurns, type Work } from '../rounds.js'
import { quantile } from '../spread.js'
import { stamp } from '../stamp.js'
import type { Scale } from '../suite.js'
import type { Contender } from './contender.js'
import { findRecipe } from './recipes.js'

export const quorumSize = 5

export interface Quorum {
  /** Pairs per second. */
  readonly rates: Rates<string>
  /** Milliseconds per pair, over all rounds. */
  readonly p99: ReadonlyMap<string, number>
  /** Contenders that did not finish a single pair in time; they are excluded from the rest. */
  readonly stuck: ReadonlySet<string>
}

export async function openQuorum(
  ids: readonly string[],
  { servers }: RedisGroup,
): Promise<Map<string, Contender>> {
  const ports = servers.map(({ port }) => port)
  const contenders = new Map<string, Contender>()
  for (const id of ids) contenders.set(id, await findRecipe(id).make(ports))
  return contenders
}

export async function measureQuorum(
  contenders: ReadonlyMap<string, Contender>,
  { effort, stuckAfter }: Scale,
): Promise<Quorum> {
  const stuck = new Set<string>()
  const times = new Map<string, number[]>()
  const works: Record<string, Work> = {}
  for (const [id, contender] of contenders) {
    const own: number[] = []
    times.set(id, own)
    if (await finishes(contender, `bench:probe:${id}`, stuckAfter)) works[id] = timed(contender, id, own)
    else stuck.add(id)
  }
  const rates = await takeTurns(works, effort)
  return { rates, stuck, p99: new Map([...times].map(([id, own]) => [id, p99(own, effort)])) }
}

function timed(contender: Contender, id: string, own: number[]): Work {
  return async (n) => {
    for (let i = 0; i < n; i++) {
      const start = stamp()
      const taken = await contender.take(`bench:${id}`)
      await taken.release()
      own.push(stamp() - start)
    }
  }
}

async function finishes(contender: Contender, key: string, within: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, within, false)
  })
  const once = async () => {
    const taken = await contender.take(key)
    await taken.release()
    return true
  }
  const done = once()
  // If it is stuck, it rejects when its connections are closed.
  done.catch(() => undefined)
  try {
    return await Promise.race([done, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Excludes everything before the counted rounds: calibration, and the discarded round. */
function p99(own: readonly number[], { fixed }: Effort): number {
  const counted = fixed === undefined ? own.slice(Math.floor(own.length / 4)) : own
  return quantile(
    counted.toSorted((a, b) => a - b),
    0.99,
  )
}
