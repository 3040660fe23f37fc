/** The proof of holding inside a transaction of the user's own, on the store itself. */
import { StaleTokenError } from '../../core/errors.js'
import type { Guarded, Held } from '../kit/guarded.js'
import type { Said } from './client.js'
import type { Conditional, Desk } from './desk.js'
import { troubleOf } from './trouble.js'
import type { KeyValue, Operation } from './wire.js'

export interface GuardedSaid {
  /** The token is good; were your own operations carried out? */
  readonly succeeded: boolean
  /** The keys that were read and written, as they are now; empty when not. */
  readonly found: readonly KeyValue[]
  /** What Consul said of the operation it refused. */
  readonly why: string
}

/** @throws StaleTokenError when this driver does not hold it, or not any more */
export function conditionOf(held: Held<Conditional>, lease: Guarded): Operation {
  const hold = held.find(lease)
  if (hold === undefined) throw new StaleTokenError(lease.name, lease.token)
  return hold.condition
}

/** @throws StaleTokenError when the lock is not this lease's any more: nothing was written; BackendError */
export async function guardTxn(
  desk: Desk,
  lease: Guarded,
  operations: readonly Operation[],
): Promise<GuardedSaid> {
  for (;;) {
    const mine = conditionOf(desk.held, lease)
    const said = await send(desk, [mine, ...operations])
    if (said.done) {
      const found = [...said.found.values()].filter(({ Key }) => Key !== mine.KV.Key)
      return { succeeded: true, found, why: '' }
    }
    if (said.refused !== 0) return { succeeded: false, found: [], why: said.why }
    // Moved to a longer session meanwhile? Then it has another index now, and is asked for again.
    const hold = desk.held.find(lease)
    await hold?.settled()
    const now = hold?.condition
    if (now === undefined || now.KV.Index === mine.KV.Index)
      throw new StaleTokenError(lease.name, lease.token)
  }
}

async function send(desk: Desk, operations: readonly Operation[]): Promise<Said> {
  try {
    return await desk.client.txn(operations)
  } catch (error) {
    throw troubleOf(error).error
  }
}
