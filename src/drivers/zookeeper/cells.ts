/**
 * Cells: one persistent node each. Their parent is a sibling of the locks, with a name that no lock can have.
 *
 * The version is the id of the transaction that last wrote the node (`mzxid`): it grows across removals and never repeats. The
 * server compares another number, the count of writes since the node was created. A write therefore reads first, and is
 * conditional on that count. This is safe only while no node is removed and recreated in between with the same count. A removed
 * cell therefore stays as a node without a value, for longer than any session of a writer could last, and is swept later.
 *
 * A cell ends by the leader's clock: at the node's last write plus the time to keep it.
 */
import type { Cell, CellChange, Cells } from '../../core/cell.js'
import { orAborted } from '../../core/or-aborted.js'
import { dataOf, type Found, foundIn, lasts } from './cell-node.js'
import { closedError, ignore, isPassing, troubleOf } from './failure.js'
import { cellPathOf, cellsOf } from './keys.js'
import type { Desk } from './runtime.js'
import {
  codes,
  create,
  exists,
  flags,
  getChildren,
  getData,
  remove,
  setData,
  sync,
} from './session/protocol.js'
import { tokenOf } from './token.js'

/** How long after its end a cell is swept, in ms: longer than the longest session. */
const sweptAfter = 15 * 60_000
/** The least time between two sweeps of one process, in ms, and the most cells that each examines. */
const sweepEvery = 10 * 60_000
const sweepMost = 500

export function cellsOver(open: () => Desk): Cells {
  let sweptAt = Number.NEGATIVE_INFINITY

  async function find(desk: Desk, path: string): Promise<Found | undefined> {
    const { session } = desk
    const synced = session.call(sync(path)).catch(ignore(codes.noNode))
    const [answer] = await Promise.all([session.call(getData(path)).catch(ignore(codes.noNode)), synced])
    const found = answer && foundIn(answer.data, answer.stat)
    // The leader's clock decides whether the cell is over.
    if (found !== undefined && found.keep !== Number.POSITIVE_INFINITY) await desk.askTime()
    return found
  }

  /** @returns undefined when another client was faster: read again */
  async function put(desk: Desk, path: string, found: Found | undefined, data: Buffer) {
    const { session, settings } = desk
    const faster = ignore(codes.badVersion, codes.noNode, codes.nodeExists)
    if (found !== undefined) {
      const stat = await session.call(setData(path, data, found.stat.version)).catch(faster)
      if (stat !== undefined) desk.told(stat)
      return stat
    }
    await desk.makeParents(path)
    const made = await session.call(create(path, data, settings.acl, flags.persistent)).catch(faster)
    if (made !== undefined) desk.told(made.stat)
    return made?.stat
  }

  async function write(desk: Desk, key: string, change: CellChange): Promise<Cell | undefined> {
    const { ifVersion, value, ttl, id } = change
    const path = cellPathOf(desk.settings.chroot, key)
    const data = dataOf({ id, value, ttl })
    for (;;) {
      const found = await find(desk, path)
      if (found?.id === id) return { version: tokenOf(found.stat.mzxid), value: found.value ?? '' }
      const present = found !== undefined && lasts(desk, found) > 0
      if ((present ? tokenOf(found.stat.mzxid) : 0) !== ifVersion) return undefined
      if (!present && value === undefined) return undefined
      const stat = await put(desk, path, found, data)
      if (stat === undefined) continue
      void sweep(desk)
      return { version: tokenOf(stat.mzxid), value: value ?? '' }
    }
  }

  /** Best effort: the next sweep finds what this one misses. */
  async function sweep(desk: Desk): Promise<void> {
    const { clock, session, settings } = desk
    if (clock.now() - sweptAt < sweepEvery) return
    sweptAt = clock.now()
    try {
      const keys = await session.call(getChildren(cellsOf(settings.chroot)))
      // A random start, so that cells beyond the first `sweepMost` are reached, too.
      const from = Math.floor(desk.random() * keys.length)
      for (const key of [...keys.slice(from), ...keys.slice(0, from)].slice(0, sweepMost)) {
        const path = `${cellsOf(settings.chroot)}/${key}`
        const found = await find(desk, path)
        if (found !== undefined && lasts(desk, found) < -sweptAfter)
          await session.call(remove(path, found.stat.version))
      }
    } catch {
      // Another client wrote meanwhile, or the connection broke.
    }
  }

  async function changed(desk: Desk, key: string, version: number, signal: AbortSignal): Promise<void> {
    const { session, standings, clock } = desk
    const path = cellPathOf(desk.settings.chroot, key)
    let wake: () => void = () => undefined
    const woken = new Promise<void>((resolve) => {
      wake = resolve
    })
    const standing = { wake, troubled: () => undefined }
    standings.add(standing)
    signal.addEventListener('abort', wake)
    const letGo = session.keepAlive()
    let stop: (() => void) | undefined
    try {
      await session.call(sync(path)).catch(ignore(codes.noNode))
      const answer = await session.call(getData(path, wake)).catch(ignore(codes.noNode))
      // The node may have been created in between; then the watch is on the node.
      if (answer === undefined && (await session.call(exists(path, wake)).catch(ignore(codes.noNode)))) return
      const found = answer && foundIn(answer.data, answer.stat)
      if (found !== undefined && found.keep !== Number.POSITIVE_INFINITY) await desk.askTime()
      const left = found === undefined ? 0 : lasts(desk, found)
      if ((left > 0 && found !== undefined ? tokenOf(found.stat.mzxid) : 0) !== version) return
      if (left > 0 && left !== Number.POSITIVE_INFINITY)
        stop = clock.at(clock.now() + left, wake, { ref: false })
      if (!signal.aborted && !desk.closed) await woken
    } finally {
      stop?.()
      letGo()
      standings.delete(standing)
      signal.removeEventListener('abort', wake)
      session.drop({ kind: 'data', path, fired: wake })
    }
  }

  /** Retries until the work succeeds or the signal aborts. @throws BackendError; the signal's reason */
  async function told<T>(signal: AbortSignal, work: (desk: Desk) => Promise<T>): Promise<T> {
    signal.throwIfAborted()
    const desk = open()
    const letGo = desk.session.keepAlive()
    try {
      for (;;) {
        try {
          await desk.session.ready(signal)
          const answer = await orAborted(work(desk), signal)
          if (desk.closed) throw closedError()
          return answer
        } catch (error) {
          signal.throwIfAborted()
          if (desk.closed) throw closedError()
          if (!isPassing(error)) throw troubleOf(error)
        }
      }
    } finally {
      letGo()
    }
  }

  return {
    read: (key, signal) =>
      told(signal, async (desk) => {
        const found = await find(desk, cellPathOf(desk.settings.chroot, key))
        if (found?.value === undefined || lasts(desk, found) <= 0) return undefined
        return { version: tokenOf(found.stat.mzxid), value: found.value }
      }),
    write: (key, change, signal) => told(signal, (desk) => write(desk, key, change)),
    changed: (key, version, signal) => told(signal, (desk) => changed(desk, key, version, signal)),
  }
}
