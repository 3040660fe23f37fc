/**
 * Cells: one persistent node each, below a node beside the locks whose name no lock can have.
 *
 * The version is the transaction that last wrote the node (`mzxid`): it grows over removals and never repeats. The server
 * compares another number, the count of writes since the node was made, so a write reads first and is sent for that count.
 * That is safe only as long as no node is removed and made again in between with the same count; therefore a removed cell stays
 * as a node without a value, for longer than any session of a writer could last, and is swept out later.
 *
 * A cell's end is told by the leader's clock: the node's last write and how long it is to be kept.
 */
import type { Cell, CellChange, Cells } from '../../core/cell.js'
import { BackendError } from '../../core/errors.js'
import { unlessAborted } from '../../core/unless-aborted.js'
import { dataOf, type Found, foundIn, lasts } from './cell-node.js'
import type { Desk } from './desk.js'
import { cellPathOf, cellsOf } from './keys.js'
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
import { ignore, isPassing, troubleOf } from './trouble.js'

/** A cell that has been gone for so long is swept out, in ms: longer than the longest session. */
const sweptAfter = 15 * 60_000
/** At least so long between two sweeps of one process, in ms; each looks at so many cells at most. */
const sweepEvery = 10 * 60_000
const sweepMost = 500

export function cellsOver(open: () => Desk): Cells {
  let sweptAt = Number.NEGATIVE_INFINITY

  async function find(desk: Desk, path: string): Promise<Found | undefined> {
    const { session } = desk
    const synced = session.call(sync(path)).catch(ignore(codes.noNode))
    const [answer] = await Promise.all([session.call(getData(path)).catch(ignore(codes.noNode)), synced])
    const found = answer && foundIn(answer.data, answer.stat)
    // Whether it is over is asked of the leader's clock.
    if (found !== undefined && found.keep !== Number.POSITIVE_INFINITY) await desk.askTime()
    return found
  }

  /** `undefined`: somebody was faster, look again. */
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
    const { seen, value, keep, id } = change
    const path = cellPathOf(desk.settings.chroot, key)
    const data = dataOf({ id, value, keep })
    for (;;) {
      const found = await find(desk, path)
      if (found?.id === id) return { version: tokenOf(found.stat.mzxid), value: found.value ?? '' }
      const present = found !== undefined && lasts(desk, found) > 0
      if ((present ? tokenOf(found.stat.mzxid) : 0) !== seen) return undefined
      if (!present && value === undefined) return undefined
      const stat = await put(desk, path, found, data)
      if (stat === undefined) continue
      void sweep(desk)
      return { version: tokenOf(stat.mzxid), value: value ?? '' }
    }
  }

  /** Best effort: what it misses the next one finds. */
  async function sweep(desk: Desk): Promise<void> {
    const { clock, session, settings } = desk
    if (clock.now() - sweptAt < sweepEvery) return
    sweptAt = clock.now()
    try {
      const keys = await session.call(getChildren(cellsOf(settings.chroot)))
      for (const key of keys.slice(0, sweepMost)) {
        const path = `${cellsOf(settings.chroot)}/${key}`
        const found = await find(desk, path)
        if (found !== undefined && lasts(desk, found) < -sweptAfter)
          await session.call(remove(path, found.stat.version))
      }
    } catch {
      // Somebody wrote meanwhile, or the connection broke.
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
      // It may have been made in between; then the watch is on it.
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

  /** Asks until it is answered or the signal ends it. @throws BackendError; the signal's reason */
  async function told<T>(signal: AbortSignal, work: (desk: Desk) => Promise<T>): Promise<T> {
    signal.throwIfAborted()
    const desk = open()
    const letGo = desk.session.keepAlive()
    try {
      for (;;) {
        try {
          await desk.session.ready(signal)
          const answer = await unlessAborted(work(desk), signal)
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

const closedError = () => new BackendError('zookeeper', 'these locks were closed', { closed: true })
