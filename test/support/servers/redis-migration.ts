// Moving a slot of a Redis Cluster from one master to another, as slowly as a test wants.
import type { Reply } from '../resp.js'
import { until } from '../until.js'
import type { RedisServer } from './redis-node.js'

/** A slot between two owners. Keys are on either side: ASK for one that moved or never was, TRYAGAIN for some of each. */
export interface Migration {
  readonly slot: number
  readonly from: RedisServer
  readonly to: RedisServer
  /** Moves these keys; none given: all that are left. */
  moveKeys(...keys: readonly string[]): Promise<void>
  /** Moves what is left and tells every running master who owns the slot now. */
  finish(): Promise<void>
}

/** A migration that has begun: both sides know. `running` names the nodes that can learn of its end. */
export function migration(
  slot: number,
  from: RedisServer,
  to: RedisServer,
  running: () => RedisServer[],
): Migration {
  // A try that was cut off may have left a copy; the old owner's is the one that has been served since.
  const move = async (keys: readonly string[]): Promise<void> => {
    if (keys.length > 0) await from.cli('MIGRATE', to.host, to.port, '', 0, 5000, 'REPLACE', 'KEYS', ...keys)
  }
  const moveAll = async (): Promise<void> => {
    for (;;) {
      const keys = (await from.cli('CLUSTER', 'GETKEYSINSLOT', slot, 1000)) as string[]
      if (keys.length === 0) return
      await move(keys)
    }
  }
  const finish = async (): Promise<void> => {
    await moveAll()
    const owner = await readNodeId(to)
    // The new owner first: were it the last, and the old one died in between, nobody would own the slot.
    await to.cli('CLUSTER', 'SETSLOT', slot, 'NODE', owner)
    await from.cli('CLUSTER', 'SETSLOT', slot, 'NODE', owner)
    await settled(
      slot,
      to,
      running().filter((node) => node !== from && node !== to),
    )
  }
  return { slot, from, to, moveKeys: (...keys) => (keys.length > 0 ? move(keys) : moveAll()), finish }
}

/** Resolves when all these nodes say that `owner` serves the slot; they hear it from each other. */
export async function settled(
  slot: number,
  owner: RedisServer,
  nodes: readonly RedisServer[],
): Promise<void> {
  const told = async (node: RedisServer): Promise<boolean> => {
    const ranges = (await node.cli('CLUSTER', 'SLOTS')) as Reply[][]
    const range = ranges.find(([first, last]) => slot >= Number(first) && slot <= Number(last))
    return (range?.[2] as Reply[] | undefined)?.[1] === owner.port
  }
  await untilAll(nodes, told, `every node to know the new owner of slot ${slot}`)
}

/** A node's id in its cluster. */
export async function readNodeId(node: RedisServer): Promise<string> {
  return String(await node.cli('CLUSTER', 'MYID'))
}

/** Waits until the condition holds on all nodes at once. */
export function untilAll(
  nodes: readonly RedisServer[],
  condition: (node: RedisServer) => Promise<boolean>,
  what: string,
): Promise<unknown> {
  const all = async () => (await Promise.all(nodes.map(condition))).every(Boolean)
  return until(all, { within: 15_000, every: 20, what })
}
