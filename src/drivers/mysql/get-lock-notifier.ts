/**
 * The bell: wakes the next waiter at once although a row cannot notify anybody.
 *
 * The holder keeps a GET_LOCK beside the row, on one connection for all its holds; the first waiter in the queue waits for it on another.
 * A release, or the end of the holder's connection, lets the waiter through; the waiter releases the bell and looks at the row as after
 * any pause. So the bell decides nothing: a bell that is missing, late or rung in vain costs a look, and without a ring the
 * waiter polls. The waiting connection holds nothing else meanwhile, and the holding connection never waits: no cycle can arise.
 */
import type { Clock } from '../../core/clock.js'
import { number } from './client.js'
import type { Settings } from './options.js'
import type { Desk } from './runtime.js'
import { createSessions } from './session/session.js'
import * as sql from './sql.js'

export interface Bell {
  /** Takes the bell: from now on waiters can wait for its release. */
  keep(name: string): void
  /** Releases the bell. */
  ring(name: string): void
  /**
   * Resolves when the bell rings, after `seconds` at the latest; undefined when this process already waits for another bell, or when
   * nobody kept the last one.
   */
  listen(name: string, seconds: number): Promise<void> | undefined
  close(): void
}

/** How long the server keeps these connections while they are silent, in seconds. A bell that is gone by then is only missed. */
const idleFor = 600
/** An answer within this many ms means that nobody keeps the bell. */
const atOnce = 3

export function createBell(desk: Desk, settings: Settings, clock: Clock): Bell {
  const { tables } = desk
  const keeping = createSessions(settings, clock, idleFor)
  const hearing = createSessions(settings, clock, idleFor)
  const kept = new Set<string>()
  const silent = new Map<string, number>()
  let listening = false

  const keep = async (name: string, tries: number): Promise<void> => {
    const { rows } = await keeping.ask(sql.takeBell(tables, name, 0))
    // A waiter that was let through has the bell for a moment.
    if (number(rows[0]?.[0]) !== 1 && tries > 1 && kept.has(name))
      desk.later(10, () => desk.behind(keep(name, tries - 1)))
  }

  const wait = async (name: string, seconds: number): Promise<void> => {
    const began = clock.now()
    const { rows } = await hearing.ask(sql.takeBell(tables, name, seconds))
    if (number(rows[0]?.[0]) !== 1) return
    desk.behind(hearing.ask(sql.giveBell(tables, name)))
    if (clock.now() - began >= atOnce) return
    if (silent.size > 1_000) silent.clear()
    silent.set(name, clock.now() + 100)
  }

  return {
    keep(name) {
      kept.add(name)
      desk.behind(keep(name, 3))
    },
    ring(name) {
      if (!kept.delete(name)) return
      desk.behind(keeping.ask(sql.giveBell(tables, name)))
    },
    listen(name, seconds) {
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
