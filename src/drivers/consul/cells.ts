/**
 * Cells: one key each, outside of every queue. The version is the index of the last change. A cell with a limited lifetime has a session of
 * its own, which is never renewed.
 */
import type { Cells } from '../../core/cell.js'
import { decodeCell, encodeCell, watchedCells } from '../kit/watched-cells.js'
import type { KeyValue } from './api-types.js'
import { toFailure } from './failure.js'
import { modifyIndex } from './hold.js'
import { encode } from './keys.js'
import { maxTtl } from './options.js'
import { safeIndex } from './queue-entry.js'
import type { Runtime } from './runtime.js'
import { replace } from './transactions.js'

export function createCells(runtime: Runtime): Cells {
  const { client, env, settings } = runtime
  const toKey = (key: string) => `${settings.prefix}%cell/${encode(key)}`
  const removed = `${settings.prefix}%removed`
  const toCell = ({ Value, ModifyIndex }: KeyValue) => decodeCell(Value ?? '', safeIndex(ModifyIndex))
  const drop = (session: string | undefined) => {
    if (session !== undefined) client.destroySession(session).catch(() => undefined)
  }
  const pause = () => 250 * (0.5 + env.random())

  return watchedCells(runtime, {
    async read(key) {
      const { kvs } = await client.get(toKey(key))
      return kvs[0] && toCell(kvs[0]).cell
    },

    async write(key, { ifVersion, value, ttl, id }) {
      const lasts = value === undefined || ttl > maxTtl
      const session = lasts ? undefined : await runtime.createRetentionSession(ttl)
      const stored = value === undefined ? undefined : encodeCell(id, value)
      const reply = await client
        .txn(replace(toKey(key), ifVersion, stored, session, { key: removed, id }))
        .catch((error) => {
          // Keep the session of a write that may have been carried out: it ends by itself.
          if (!toFailure(error).ambiguous) drop(session)
          throw error
        })
      if (reply.committed)
        return { version: modifyIndex(reply, value === undefined ? removed : toKey(key)), value: value ?? '' }
      const { kvs } = await client.get(toKey(key)).catch((error) => {
        if (!reply.repeated) drop(session)
        throw error
      })
      // The current value may be ours, from an earlier try whose answer was lost.
      if (kvs[0]?.Session !== session) drop(session)
      const found = kvs[0] && toCell(kvs[0])
      return found?.id === id ? found.cell : undefined
    },

    async watch(key, version, ring) {
      let stop = () => {}
      let over = false
      let disarm: (() => void) | undefined
      const broke = () => {
        disarm = env.clock.at(env.clock.now() + pause(), ring)
      }
      const left = (kvs: readonly KeyValue[]) => (kvs[0]?.ModifyIndex ?? 0) !== version
      // A missing key shares its index with other removed keys: their changes do not count.
      const follow = (index: number) => {
        const heard = ({
          kvs,
          index: next,
        }: {
          readonly kvs: readonly KeyValue[]
          readonly index: number
        }) => {
          if (over) return
          if (left(kvs)) ring()
          else follow(next)
        }
        stop = client.watch(toKey(key), false, index, heard, broke)
      }
      const { kvs, index } = await client.get(toKey(key))
      if (left(kvs)) return undefined
      follow(index)
      return () => {
        over = true
        stop()
        disarm?.()
      }
    },

    toError: (error) => toFailure(error).error,
  })
}
