// A process that locks over Redis, with the given contender. Arguments: the contender's id, the servers' ports.
import { setTimeout } from 'node:timers/promises'
import { spin, type Turn } from '../hand-over.js'
import { usedHeap } from '../heap.js'
import type { Contender, Taken } from '../redis/contender.js'
import { findRecipe } from '../redis/recipes.js'
import { stamp } from '../stamp.js'
import { serve } from '../worker-process.js'

const [id = '', ports = ''] = process.argv.slice(2)
const contender: Promise<Contender> = findRecipe(id).make(ports.split(',').map(Number))
let standing: Promise<Turn[]> = Promise.resolve([])
let held: Taken[] = []
let usage = process.cpuUsage()
let since = stamp()

/** The share of one of several workers of a process in a closed loop. */
export interface Share {
  readonly taken: number
  /** For each acquisition: the times of request and grant. */
  readonly waits: readonly (readonly [asked: number, granted: number])[]
}

const handlers = {
  async open(): Promise<void> {
    await contender
  },

  /** Requests `key` `count` times at once; each holder works for `busy` ms, then releases. Does not wait for them. */
  async standInLine(key: string, count: number, busy: number): Promise<void> {
    const locks = await contender
    const one = async (): Promise<Turn> => {
      const taken = await locks.take(key)
      const granted = stamp()
      if (busy > 0) spin(busy)
      const released = stamp()
      const done = taken.release()
      const turn = { token: taken.token, waitingSince: 0, granted, released }
      await done
      return turn
    }
    standing = Promise.all(Array.from({ length: count }, one))
    // `turns` awaits it; until then a rejection must not count as unhandled.
    standing.catch(() => undefined)
  },

  /** The turns of all queued requests, once they are done. */
  turns: (): Promise<Turn[]> => standing,

  /** `workers` repeatedly acquire `key`, hold it for `hold` ms without being busy, and release it, for `lasting` ms. */
  async compete(key: string, workers: number, hold: number, lasting: number): Promise<Share[]> {
    const locks = await contender
    const end = stamp() + lasting
    const worker = async (): Promise<Share> => {
      const waits: [number, number][] = []
      while (stamp() < end) {
        const asked = stamp()
        const taken = await locks.take(key)
        const granted = stamp()
        if (granted < end) waits.push([asked, granted])
        if (hold > 0) await setTimeout(hold)
        await taken.release()
      }
      return { taken: waits.length, waits }
    }
    return Promise.all(Array.from({ length: workers }, worker))
  },

  /**
   * Acquires `count` keys and keeps them: as the library does by default, or, with `briefly`, for 10 s from renewal to renewal. Resolves
   * with the heap per key, in bytes.
   */
  async hold(prefix: string, count: number, briefly: boolean): Promise<number> {
    const locks = await contender
    const take = (key: string) => (briefly && locks.keep !== undefined ? locks.keep(key) : locks.take(key))
    const before = await usedHeap()
    held = await Promise.all(Array.from({ length: count }, (_, i) => take(`${prefix}:${i}`)))
    return ((await usedHeap()) - before) / count
  },

  async drop(): Promise<void> {
    await Promise.all(held.map((taken) => taken.release()))
    held = []
  },

  /** Share of a core since the last call, 0 to 1 (more with threads). */
  async load(): Promise<number> {
    const { user, system } = process.cpuUsage(usage)
    const share = (user + system) / 1000 / (stamp() - since)
    usage = process.cpuUsage()
    since = stamp()
    return share
  },

  gaveUp: async (): Promise<number> => (await contender).gaveUp,
}

export type RedisMember = typeof handlers

serve(handlers, async () => (await contender).close())
