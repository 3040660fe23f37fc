/**
 * The bell: how the next in line is woken at once although no row can wake anybody.
 *
 * The holder keeps a GET_LOCK beside the row, on one connection for all it holds; the first in line waits for it on another. A
 * release, and the end of the holder's connection, let the waiter through, which gives the bell back and looks at the row like after
 * any pause. So the bell decides nothing: one that is missing, late or rung in vain costs a look, and where nobody rings the
 * waiter polls. The connection that waits holds nothing else meanwhile, and the one that holds never waits: no circle can arise.
 */
import type { Clock } from '../../core/clock.js'
import { number } from './client.js'
import type { Desk } from './desk.js'
import type { Settings } from './options.js'
import { createSessions } from './session/session.js'
import * as sql from './sql.js'

export interface Bell {
  /** Held from now on: whoever waits can wait for the end. */
  keep(name: string): void
  /** Given back. */
  ring(name: string): void
  /**
   * Resolves when it was rung, after `seconds` at the latest; undefined when this process waits for another one already, or when the
   * last one was not kept by anybody.
   */
  listen(name: string, seconds: number): Promise<void> | undefined
  close(): void
}

/** The server keeps these connections for so long without a word, in seconds. A bell that is gone by then is only missed. */
const idleFor = 600
/** An answer so quick, in ms, says that nobody keeps the bell. */
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
    // A waiter that was let through has it for a moment.
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
