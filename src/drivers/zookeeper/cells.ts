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
import { type CellNode, encodeCell, parseCell, timeLeft } from './cell-node.js'
import { closedError, ignore, isTransient, toFailure } from './failure.js'
import { cellPath, cellsPath } from './keys.js'
import type { Runtime } from './runtime.js'
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
import { toToken } from './token.js'

/** How long after its end a cell is swept, in ms: longer than the longest session. */
const sweptAfter = 15 * 60_000
/** The least time between two sweeps of one process, in ms, and the most cells that each examines. */
const sweepEvery = 10 * 60_000
const maxSwept = 500

export function cellsOver(open: () => Runtime): Cells {
  let sweptAt = Number.NEGATIVE_INFINITY

  async function find(runtime: Runtime, path: string): Promise<CellNode | undefined> {
    const { session } = runtime
    const synced = session.call(sync(path)).catch(ignore(codes.noNode))
    const [answer] = await Promise.all([session.call(getData(path)).catch(ignore(codes.noNode)), synced])
    const found = answer && parseCell(answer.data, answer.stat)
    // The leader's clock decides whether the cell is over.
    if (found !== undefined && found.keep !== Number.POSITIVE_INFINITY) await runtime.fetchServerTime()
    return found
  }

  /** @returns undefined when another client was faster: read again */
  async function put(runtime: Runtime, path: string, found: CellNode | undefined, data: Buffer) {
    const { session, settings } = runtime
    const faster = ignore(codes.badVersion, codes.noNode, codes.nodeExists)
    if (found !== undefined) {
      const stat = await session.call(setData(path, data, found.stat.version)).catch(faster)
      if (stat !== undefined) runtime.noteServerTime(stat)
      return stat
    }
    await runtime.makeParents(path)
    const made = await session.call(create(path, data, settings.acl, flags.persistent)).catch(faster)
    if (made !== undefined) runtime.noteServerTime(made.stat)
    return made?.stat
  }

  async function write(runtime: Runtime, key: string, change: CellChange): Promise<Cell | undefined> {
    const { ifVersion, value, ttl, id } = change
    const path = cellPath(runtime.settings.chroot, key)
    const data = encodeCell({ id, value, ttl })
    for (;;) {
      const found = await find(runtime, path)
      if (found?.id === id) return { version: toToken(found.stat.mzxid), value: found.value ?? '' }
      const present = found !== undefined && timeLeft(runtime, found) > 0
      if ((present ? toToken(found.stat.mzxid) : 0) !== ifVersion) return undefined
      if (!present && value === undefined) return undefined
      const stat = await put(runtime, path, found, data)
      if (stat === undefined) continue
      void sweep(runtime)
      return { version: toToken(stat.mzxid), value: value ?? '' }
    }
  }

  /** Best effort: the next sweep finds what this one misses. */
  async function sweep(runtime: Runtime): Promise<void> {
    const { clock, session, settings } = runtime
    if (clock.now() - sweptAt < sweepEvery) return
    sweptAt = clock.now()
    try {
      const keys = await session.call(getChildren(cellsPath(settings.chroot)))
      // A random start, so that cells beyond the first `maxSwept` are reached, too.
      const from = Math.floor(runtime.random() * keys.length)
      for (const key of [...keys.slice(from), ...keys.slice(0, from)].slice(0, maxSwept)) {
        const path = `${cellsPath(settings.chroot)}/${key}`
        const found = await find(runtime, path)
        if (found !== undefined && timeLeft(runtime, found) < -sweptAfter)
          await session.call(remove(path, found.stat.version))
      }
    } catch {
      // Another client wrote meanwhile, or the connection broke.
    }
  }

  async function changed(runtime: Runtime, key: string, version: number, signal: AbortSignal): Promise<void> {
    const { session, pendingClaims, clock } = runtime
    const path = cellPath(runtime.settings.chroot, key)
    let wake: () => void = () => undefined
    const woken = new Promise<void>((resolve) => {
      wake = resolve
    })
    const pending = { wake, onFailure: () => undefined }
    pendingClaims.add(pending)
    signal.addEventListener('abort', wake)
    const letGo = session.keepAlive()
    let stop: (() => void) | undefined
    try {
      await session.call(sync(path)).catch(ignore(codes.noNode))
      const answer = await session.call(getData(path, wake)).catch(ignore(codes.noNode))
      // The node may have been created in between; then the watch is on the node.
      if (answer === undefined && (await session.call(exists(path, wake)).catch(ignore(codes.noNode)))) return
      const found = answer && parseCell(answer.data, answer.stat)
      if (found !== undefined && found.keep !== Number.POSITIVE_INFINITY) await runtime.fetchServerTime()
      const left = found === undefined ? 0 : timeLeft(runtime, found)
      if ((left > 0 && found !== undefined ? toToken(found.stat.mzxid) : 0) !== version) return
      if (left > 0 && left !== Number.POSITIVE_INFINITY)
        stop = clock.at(clock.now() + left, wake, { ref: false })
      if (!signal.aborted && !runtime.closed) await woken
    } finally {
      stop?.()
      letGo()
      pendingClaims.delete(pending)
      signal.removeEventListener('abort', wake)
      session.drop({ kind: 'data', path, fired: wake })
    }
  }

  /** Retries until the work succeeds or the signal aborts. @throws BackendError; the signal's reason */
  async function told<T>(signal: AbortSignal, work: (runtime: Runtime) => Promise<T>): Promise<T> {
    signal.throwIfAborted()
    const runtime = open()
    const letGo = runtime.session.keepAlive()
    try {
      for (;;) {
        try {
          await runtime.session.ready(signal)
          const answer = await orAborted(work(runtime), signal)
          if (runtime.closed) throw closedError()
          return answer
        } catch (error) {
          signal.throwIfAborted()
          if (runtime.closed) throw closedError()
          if (!isTransient(error)) throw toFailure(error)
        }
      }
    } finally {
      letGo()
    }
  }

  return {
    read: (key, signal) =>
      told(signal, async (runtime) => {
        const found = await find(runtime, cellPath(runtime.settings.chroot, key))
        if (found?.value === undefined || timeLeft(runtime, found) <= 0) return undefined
        return { version: toToken(found.stat.mzxid), value: found.value }
      }),
    write: (key, change, signal) => told(signal, (runtime) => write(runtime, key, change)),
    changed: (key, version, signal) => told(signal, (runtime) => changed(runtime, key, version, signal)),
  }
}
