/**
 * Cells: one key each, outside of every queue. The version is the index of the last change. A cell with a limited lifetime has a session of
 * its own, which is never renewed.
 */
import type { Cells } from '../../core/cell.js'
import { decodeCell, encodeCell, watchedCells } from '../kit/watched-cells.js'
import type { KeyValue } from './api-types.js'
import { toFailure } from './failure.js'
import { indexIn } from './hold.js'
import { encode } from './keys.js'
import { longestTtl } from './options.js'
import { safe } from './queue-entry.js'
import type { Desk } from './runtime.js'
import { replace } from './transactions.js'

export function cellsOf(desk: Desk): Cells {
  const { client, env, settings } = desk
  const keyOf = (key: string) => `${settings.prefix}%cell/${encode(key)}`
  const removed = `${settings.prefix}%removed`
  const cellIn = ({ Value, ModifyIndex }: KeyValue) => decodeCell(Value ?? '', safe(ModifyIndex))
  const drop = (session: string | undefined) => {
    if (session !== undefined) client.destroySession(session).catch(() => undefined)
  }
  const pause = () => 250 * (0.5 + env.random())

  return watchedCells(desk, {
    async read(key) {
      const { kvs } = await client.get(keyOf(key))
      return kvs[0] && cellIn(kvs[0]).cell
    },

    async write(key, { ifVersion, value, ttl, id }) {
      const lasts = value === undefined || ttl > longestTtl
      const session = lasts ? undefined : await desk.keeper(ttl)
      const stored = value === undefined ? undefined : encodeCell(id, value)
      const said = await client
        .txn(replace(keyOf(key), ifVersion, stored, session, { key: removed, id }))
        .catch((error) => {
          // Keep the session of a write that may have been carried out: it ends by itself.
          if (!toFailure(error).ambiguous) drop(session)
          throw error
        })
      if (said.done)
        return { version: indexIn(said, value === undefined ? removed : keyOf(key)), value: value ?? '' }
      const { kvs } = await client.get(keyOf(key)).catch((error) => {
        if (!said.repeated) drop(session)
        throw error
      })
      // The current value may be ours, from an earlier try whose answer was lost.
      if (kvs[0]?.Session !== session) drop(session)
      const found = kvs[0] && cellIn(kvs[0])
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
        stop = client.watch(keyOf(key), false, index, heard, broke)
      }
      const { kvs, index } = await client.get(keyOf(key))
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
