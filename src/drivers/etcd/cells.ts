/**
 * Cells: one key each, outside of every queue. The version is the revision of the last change. A cell with a limited lifetime has
 * its own lease.
 */
import type { Cells } from '../../core/cell.js'
import { decodeCell, encodeCell, watchedCells } from '../kit/watched-cells.js'
import type { KeyValue } from './api-types.js'
import { toFailure } from './failure.js'
import { base64, encode } from './keys.js'
import type { Runtime } from './runtime.js'
import { replace } from './transactions.js'

export function createCells(runtime: Runtime): Cells {
  const { client, env, settings } = runtime
  const toKey = (key: string) => base64(`${settings.prefix}%cell/${encode(key)}`)
  const toCell = ({ value = '', mod_revision }: KeyValue) => decodeCell(value, Number(mod_revision))
  const drop = (lease: string | undefined) => {
    if (lease !== undefined) client.revokeLease(lease).catch(() => undefined)
  }
  const pause = () => 250 * (0.5 + env.random())

  return watchedCells(runtime, {
    async read(key) {
      const { is } = await client.range({ key: toKey(key) })
      const kv = is.kvs?.[0]
      return kv && toCell(kv).cell
    },

    async write(key, { ifVersion, value, ttl, id }) {
      const lasts = value === undefined || ttl === Number.POSITIVE_INFINITY
      // Whole seconds: the cell may last a little longer, never shorter.
      const lease = lasts ? undefined : (await client.grantLease(Math.max(1, Math.ceil(ttl / 1000)))).is.ID
      const stored = value === undefined ? undefined : encodeCell(id, value)
      const { is } = await client.txn(replace(toKey(key), ifVersion, stored, lease)).catch((error) => {
        // Keep the lease of a write that may have been carried out: it ends by itself.
        if (!toFailure(error).ambiguous) drop(lease)
        throw error
      })
      if (is.succeeded === true) return { version: Number(is.header.revision), value: value ?? '' }
      const now = is.responses?.[0]?.response_range?.kvs?.[0]
      // The current value may be ours, from an earlier try whose answer was lost.
      if (now?.lease !== lease) drop(lease)
      const found = now && toCell(now)
      return found?.id === id ? found.cell : undefined
    },

    async watch(key, version, ring) {
      const { is } = await client.range({ key: toKey(key) })
      const now = is.kvs?.[0]
      if (Number(now?.mod_revision ?? 0) !== version) return undefined
      const from = String(BigInt(is.header?.revision ?? '0') + 1n)
      let disarm: (() => void) | undefined
      const broke = () => {
        disarm = env.clock.at(env.clock.now() + pause(), ring)
      }
      const heard = ({
        result,
      }: {
        readonly result?: { readonly canceled?: boolean; readonly events?: unknown }
      }) => {
        if (result?.canceled === true || result?.events !== undefined) ring()
      }
      const stop = client.watch({ key: toKey(key), start_revision: from }, heard, broke)
      return () => {
        stop()
        disarm?.()
      }
    },

    toError: (error) => toFailure(error).error,
  })
}
