/** etcd's part of a hold: removes its key, moves it to another lease, or rewrites it at its position in the queue. */
import type { Claim } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { shared } from '../../core/mode.js'
import { quote } from '../../core/name.js'
import { type EntryStore, SessionHold } from '../kit/sessions/hold.js'
import type { Session } from '../kit/sessions/session.js'
import type { TxnReply } from './api-types.js'
import { Refusal, toFailure } from './failure.js'
import { base64, type Line } from './keys.js'
import { writtenOf } from './queue-entry.js'
import type { Desk } from './runtime.js'
import { giveUp, move, rewrite } from './transactions.js'

/** @param doubt a request for the entry may still be in flight, and must not find the attempt open when it arrives */
export function holdOf(
  desk: Desk,
  line: Line,
  claim: Claim,
  session: Session,
  token: number,
  sent: number,
  doubt: boolean,
): SessionHold {
  const { client, env, keys } = desk
  const key = line.place(claim.attempt)
  const since = client.time.now()
  const place: EntryStore = {
    attempt: claim.attempt,
    key,
    remove: async () => {
      if (doubt) {
        try {
          const { is, repeated } = await client.txn(giveUp(line, claim.attempt, session.id))
          return { existed: is.responses?.[0]?.response_delete_range?.deleted === '1', repeated }
        } catch (error) {
          // After the lease has ended, no request in flight can create the entry; the hold itself may have been moved to another lease.
          if (!(error instanceof Refusal && error.noSession)) throw error
        }
      }
      const { is, repeated } = await client.remove(key)
      return { existed: is.deleted === '1', repeated }
    },
    move: async (from, to) => {
      // The entry may already be under another lease, after a try whose answer was lost.
      for (let lease = from.id; ; ) {
        const { is } = await client.txn(move(key, token, lease, to.id))
        if (is.succeeded === true) return true
        const now = leaseIn(is, token)
        if (now === undefined || now === to.id) return now !== undefined
        lease = now
      }
    },
    downgrade: async ({ id }) => {
      const value = base64(writtenOf({ ...claim, mode: shared }, since, env.by))
      for (let lease = id; ; ) {
        const { is } = await client.txn(rewrite(key, token, value, lease))
        if (is.succeeded === true) return
        const now = leaseIn(is, token)
        if (now === undefined)
          throw new BackendError('etcd', `cannot downgrade ${quote(claim.name)}: it is not held`)
        lease = now
      }
    },
    onEnded: () => keys.drop({ name: claim.name, token }, key),
    toError: (error) => toFailure(error).error,
  }
  keys.add({ name: claim.name, token }, key)
  return new SessionHold(desk, place, session, token, sent, claim.ttl)
}

/** The lease of the entry, from the answer to `move` or `rewrite`. Undefined: the entry is gone. */
function leaseIn({ responses }: TxnReply, token: number): string | undefined {
  const kv = responses?.[0]?.response_range?.kvs?.[0]
  return kv?.create_revision === String(token) ? (kv.lease ?? '0') : undefined
}
