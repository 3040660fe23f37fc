/**
 * Lists key names from every node. In a Cluster an incomplete list must not look complete: the nodes asked must together have served
 * all slots, each slot from before its node was asked until after. Keys of a slot being moved could leave a node before it is asked,
 * to one that was asked already; a second round finds them.
 */
import { BackendError } from '../../core/errors.js'
import { GarbledReply } from './reply-shapes.js'

/** Sends a command to one node. */
export type AskNode = (...command: readonly [string, ...string[]]) => Promise<unknown>

const allSlots = 16_384
const maxRounds = 3

/** @throws BackendError when nodes that serve some slots cannot be asked */
export async function* scanAll(
  nodes: () => AsyncIterable<AskNode>,
  pattern: string,
  cluster: boolean,
): AsyncGenerator<readonly string[]> {
  for (let round = 1; ; round++) {
    const served = new Set<number>()
    let moving = false
    for await (const ask of nodes()) {
      const before = cluster ? await readSlots(ask) : undefined
      yield* pages(ask, pattern)
      if (before === undefined) continue
      const after = await readSlots(ask)
      moving ||= before.moving || after.moving
      for (const slot of before.slots) if (after.slots.has(slot)) served.add(slot)
    }
    if (!cluster || (served.size === allSlots && (!moving || round > 1))) return
    if (round < maxRounds) continue
    throw new BackendError(
      'redis',
      `cannot list: the nodes in reach serve ${served.size} of the ${allSlots} slots of the Cluster`,
    )
  }
}

async function* pages(ask: AskNode, pattern: string): AsyncGenerator<readonly string[]> {
  let cursor = '0'
  do {
    const reply = await ask('SCAN', cursor, 'MATCH', pattern, 'COUNT', '500')
    const [next, keys] = Array.isArray(reply) && reply.length === 2 ? reply : []
    if (!/^\d+$/.test(String(next)) || !Array.isArray(keys)) throw new GarbledReply('SCAN', reply)
    cursor = String(next)
    yield keys.map(String)
  } while (cursor !== '0')
}

/** The slots that a node itself serves, by the line `myself` of its CLUSTER NODES. */
async function readSlots(ask: AskNode): Promise<{ slots: ReadonlySet<number>; moving: boolean }> {
  const reply = await ask('CLUSTER', 'NODES')
  if (typeof reply !== 'string' || !reply.includes('myself')) throw new GarbledReply('CLUSTER NODES', reply)
  const lines = reply.split('\n')
  const own = lines.map((line) => line.split(' ')).find(([, , flags]) => flags?.split(',').includes('myself'))
  const slots = new Set<number>()
  let moving = false
  for (const range of own?.slice(8) ?? []) {
    if (range.startsWith('[')) moving = true
    const [from, to = from] = range.split('-').map(Number)
    for (let slot = from ?? Number.NaN; slot <= (to ?? 0); slot++) slots.add(slot)
  }
  return { slots, moving }
}
