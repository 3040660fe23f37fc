/** Acquire and release of a free lock, one by one and with 64 keys at once, each contender beside its floor. */
import { type Effort, type Rates, takeTurns, type Work } from '../rounds.js'
import type { Scale } from '../suite.js'
import { countCommands } from './commands.js'
import type { Contender } from './contender.js'
import { type Cost, measureCost } from './costs.js'
import { findRecipe } from './recipes.js'

/** Concurrent keys on one connection. */
export const atOnce = 64

export interface Uncontended {
  /** Pairs per second. */
  readonly oneByOne: Rates<string>
  readonly together: Rates<string>
  /** Commands the client sent per pair; if this is not a whole number, the count was disturbed. */
  readonly commands: ReadonlyMap<string, number>
  /** The same with 64 concurrent requests. */
  readonly commandsTogether: ReadonlyMap<string, number>
  readonly costs: ReadonlyMap<string, Cost>
  readonly costsTogether: ReadonlyMap<string, Cost>
}

/** @param sent commands whose server time counts as the cost of a pair; undefined: costs are not measured */
export async function measureUncontended(
  ids: readonly string[],
  port: number,
  { effort }: Scale,
  sent?: readonly string[],
): Promise<Uncontended> {
  const contenders = new Map<string, Contender>()
  for (const id of ids) contenders.set(id, await findRecipe(id).make([port]))
  try {
    const works = (work: (contender: Contender, id: string) => Work) =>
      Object.fromEntries([...contenders].map(([id, contender]) => [id, work(contender, id)]))
    const oneByOne = works(pairs)
    const together = works(many)
    return {
      oneByOne: await takeTurns(oneByOne, effort),
      together: await takeTurns(together, effort),
      commands: await counted(oneByOne, port, 100),
      commandsTogether: await counted(together, port, atOnce),
      costs: await costs(oneByOne, port, sent, effort),
      costsTogether: await costs(together, port, sent, effort),
    }
  } finally {
    for (const contender of contenders.values()) await contender.close()
  }
}

function pairs(contender: Contender, id: string): Work {
  return async (n) => {
    for (let i = 0; i < n; i++) {
      const taken = await contender.take(`bench:${id}`)
      await taken.release()
    }
  }
}

/** Counts pairs, so slices are whole multiples of 64. */
function many(contender: Contender, id: string): Work {
  const keys = Array.from({ length: atOnce }, (_, i) => `bench:${id}:${i}`)
  const pair = async (key: string) => {
    const taken = await contender.take(key)
    await taken.release()
  }
  return async (n) => {
    for (let done = 0; done < n; done += atOnce) await Promise.all(keys.map(pair))
  }
}

async function costs(
  works: Readonly<Record<string, Work>>,
  port: number,
  sent: readonly string[] | undefined,
  effort: Effort,
): Promise<Map<string, Cost>> {
  const found = new Map<string, Cost>()
  if (sent === undefined) return found
  for (const [id, work] of Object.entries(works)) found.set(id, await measureCost(work, port, sent, effort))
  return found
}

async function counted(
  works: Readonly<Record<string, Work>>,
  port: number,
  pairs: number,
): Promise<Map<string, number>> {
  const found = new Map<string, number>()
  const counter = await countCommands(port)
  for (const [id, work] of Object.entries(works)) {
    await counter.look()
    await work(pairs)
    found.set(id, (await counter.look()).sent / pairs)
  }
  await counter.stop()
  return found
}
