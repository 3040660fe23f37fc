/** A slot of a Cluster with replicas is moved, or its move stops half-way: the master that gives or takes it may be replaced meanwhile. */
import type { RedisServer } from '../../test/support/servers/redis.js'
import type { ClusterSetup } from '../../test/support/servers/redis-cluster.js'
import { readNodeId } from '../../test/support/servers/redis-migration.js'
import { until } from '../../test/support/until.js'
import type { Fault } from './store.js'

const names = ['ledger', 'stock', 'mail', 'queue', 'page', 'seats', 'report', 'archive']
const ignore = () => undefined

/** Call before any fault: the node that is asked may just be killed. */
export async function slotMoves(setup: ClusterSetup): Promise<Fault[]> {
  const slots = await Promise.all(names.map((name) => setup.keySlot(`hf:{${name}}`)))
  const pick = (amount: number) => slots[Math.floor(amount * slots.length)] ?? 0
  const moves = { subjects: ['slots'], weight: 4 }
  return [
    {
      ...moves,
      kind: 'move a slot',
      lasts: [0.2, 1],
      begin: async ({ amount }) => {
        const { from, to } = await ends(setup, pick(amount), amount)
        // If a node is cut off the move stops half-way, which is a fault of its own; it is completed later.
        return from && to && (() => finish(setup, pick(amount), to))
      },
    },
    {
      ...moves,
      kind: 'a slot move is interrupted',
      lasts: [0.5, 8],
      begin: async ({ amount }) => {
        const slot = pick(amount)
        const { from, to } = await ends(setup, slot, amount)
        if (from === undefined || to === undefined) return undefined
        const migration = await setup.beginMigration(slot, to).catch(ignore)
        // Half of them have moved the keys, too: a replica of the new side may lack them.
        if (amount * 1_000 - Math.floor(amount * 1_000) < 0.5) await migration?.moveKeys().catch(ignore)
        return () => finish(setup, slot, to)
      },
    },
  ]
}

/** Who has the slot, and another master, as far as they answer now. */
async function ends(setup: ClusterSetup, slot: number, amount: number) {
  const known = await Promise.all(setup.nodes.map(isMaster))
  const masters = setup.nodes.filter((_, n) => known[n])
  if (masters.length < setup.masters.length) return {}
  const from = await setup.findOwner(slot).catch(ignore)
  const others = masters.filter((node) => node !== from)
  return { from, to: others[Math.floor(amount * 1_000) % others.length] }
}

async function isMaster(node: RedisServer): Promise<boolean> {
  const late = new Promise<string>((resolve) => setTimeout(resolve, 500, '').unref())
  const role = node.cli('INFO', 'replication').then(String, () => '')
  return (await Promise.race([role, late])).includes('role:master')
}

/**
 * Once every node has its role and its copies, which is all that can be waited for: one that was taking the slot when its owner was
 * replaced says that nobody has the slot, and takes no keys, until it is told. The one that was to take it may be a replica now: then another takes it.
 */
async function finish(setup: ClusterSetup, slot: number, wanted: RedisServer): Promise<void> {
  const moved = async () => {
    const masters = await setup.led()
    if (masters === undefined) return false
    const owner = await setup.findOwner(slot)
    const to = masters.includes(wanted) ? wanted : masters.find((node) => node !== owner)
    if (to === undefined) return false
    const id = await readNodeId(owner)
    for (const node of masters) if (node !== owner) await node.cli('CLUSTER', 'SETSLOT', slot, 'NODE', id)
    if (owner !== to) await setup.migrateSlot(slot, to)
    await setup.migrateSlot(slot, to)
    return true
  }
  const within = 60_000
  await until(() => moved().catch(() => false), { within, every: 100, what: `slot ${slot} to be moved` })
}
