/**
 * Wakes the next waiter at once although a row cannot notify anybody.
 *
 * The holder keeps a GET_LOCK beside the row, on one connection for all its holds; the first waiter in the queue waits for it on another.
 * A release, or the end of the holder's connection, lets the waiter through; the waiter releases that lock and reads the row as after
 * any pause. So a notification decides nothing: one that is missing, late or needless costs a read, and without it the
 * waiter polls. The waiting connection holds nothing else meanwhile, and the holding connection never waits: no cycle can arise.
 */
import type { Clock } from '../../core/clock.js'
import { number } from './client.js'
import type { Settings } from './options.js'
import type { Runtime } from './runtime.js'
import { createSessions } from './session/sessions.js'
import * as sql from './sql.js'

export interface GetLockNotifier {
  /** Takes the GET_LOCK: from now on waiters can wait for its release. */
  hold(name: string): void
  /** Releases the GET_LOCK. */
  notify(name: string): void
  /**
   * Resolves when the GET_LOCK is released, after `seconds` at the latest; undefined when this process already waits for another, or when
   * nobody held the last one.
   */
  wait(name: string, seconds: number): Promise<void> | undefined
  close(): void
}

/** How long the server keeps these connections while they are silent, in seconds. A GET_LOCK that is gone by then is only missed. */
const idleTimeout = 600
/** An answer within this many ms means that nobody holds it. */
const maxConcurrent = 3

export function createGetLockNotifier(runtime: Runtime, settings: Settings, clock: Clock): GetLockNotifier {
  const { tables } = runtime
  const keeping = createSessions(settings, clock, idleTimeout)
  const hearing = createSessions(settings, clock, idleTimeout)
  const kept = new Set<string>()
  const silent = new Map<string, number>()
  let listening = false

  const keep = async (name: string, tries: number): Promise<void> => {
    const { rows } = await keeping.execute(sql.getNotifierLock(tables, name, 0))
    // A waiter that was let through has it for a moment.
    if (number(rows[0]?.[0]) !== 1 && tries > 1 && kept.has(name))
      runtime.schedule(10, () => runtime.background(keep(name, tries - 1)))
  }

  const wait = async (name: string, seconds: number): Promise<void> => {
    const began = clock.now()
    const { rows } = await hearing.execute(sql.getNotifierLock(tables, name, seconds))
    if (number(rows[0]?.[0]) !== 1) return
    runtime.background(hearing.execute(sql.releaseNotifierLock(tables, name)))
    if (clock.now() - began >= maxConcurrent) return
    if (silent.size > 1_000) silent.clear()
    silent.set(name, clock.now() + 100)
  }

  return {
    hold(name) {
      kept.add(name)
      runtime.background(keep(name, 3))
    },
    notify(name) {
      if (!kept.delete(name)) return
      runtime.background(keeping.execute(sql.releaseNotifierLock(tables, name)))
    },
    wait(name, seconds) {
      const silentUntil = silent.get(name) ?? 0
      if (listening || silentUntil > clock.now()) return undefined
      silent.delete(name)
      listening = true
      return wait(name, seconds).finally(() => {
        listening = false
      })
    },
    close() {
      keeping.close()
      hearing.close()
    },
  }
}
