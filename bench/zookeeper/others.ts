/** Curator and kazoo in separate processes, on the same server: pairs of acquire and release in sequence. */
import { curator, kazoo, type Other, tidy } from '../../test/interop/zookeeper/others.js'

export interface Others {
  readonly names: readonly string[]
  /** Pairs per second of `name`, over `pairs`. */
  rate(name: string, pairs: number): Promise<number>
  close(): Promise<void>
}

export async function openOthers(server: string): Promise<Others> {
  const all: Readonly<Record<string, Other>> = {
    'Curator 5.4 InterProcessMutex': await curator(server, '/bench/curator'),
    'kazoo 2.8 Lock': await kazoo(server, '/bench/kazoo', 'plain'),
  }
  return {
    names: Object.keys(all),
    async rate(name, pairs) {
      const reply = await all[name]?.ask(`rounds ${pairs}`)
      return pairs / (Number(reply?.split(' ')[1]) / 1000)
    },
    async close() {
      for (const other of Object.values(all)) await other.stop()
      await tidy()
    },
  }
}
