// A process that locks in PostgreSQL, with the given contender. Arguments: the contender's id, the server's URL.

import type { Turn } from '../hand-over.js'
import { findRecipe } from '../sql/recipes.js'
import { stamp } from '../stamp.js'
import { serve } from '../worker-process.js'

const [id = '', url = ''] = process.argv.slice(2)
const contender = findRecipe(id).open(url)
let standing: Promise<Turn[]> = Promise.resolve([])

const handlers = {
  /** Connects, and creates its tables. */
  async open(): Promise<void> {
    const release = await (await contender).take(`warm ${process.pid}`)
    await release()
  },

  /** Requests `name` `count` times at once and releases each on its grant. Does not wait for them. */
  async standInLine(name: string, count: number): Promise<void> {
    const { take } = await contender
    const one = async (): Promise<Turn> => {
      const release = await take(name)
      const granted = stamp()
      const released = stamp()
      await release()
      return { token: 0, waitingSince: 0, granted, released }
    }
    standing = Promise.all(Array.from({ length: count }, one))
    // `turns` awaits it; until then a rejection must not count as unhandled.
    standing.catch(() => undefined)
  },

  turns: (): Promise<Turn[]> => standing,

  gaveUp: async (): Promise<number> => (await contender).gaveUp(),
}

export type SqlMember = typeof handlers

serve(handlers, async () => {
  await (await contender).close()
})
