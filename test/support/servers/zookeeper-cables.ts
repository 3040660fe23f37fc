// The cables between the servers of an ensemble, to cut one of them off from the others while its clients still reach it.
import { startProxy, type TcpProxy } from '../proxy.js'
import type { Between } from './zookeeper.js'

export interface EnsembleCables {
  /** For `startEnsemble`. A server that is started again gets new ones. */
  readonly between: Between
  readonly betweenElections: Between
  /** Server `n`, from 0, neither hears the others nor is heard by them until what this returns is called. */
  isolate(n: number): () => void
  stop(): Promise<void>
}

export function ensembleCables(): EnsembleCables {
  const cables = new Map<string, TcpProxy>()
  const through = async (key: string, port: number): Promise<number> => {
    await cables.get(key)?.stop()
    const cable = await startProxy({ port })
    cables.set(key, cable)
    return cable.port
  }
  return {
    between: (from, to, port) => through(`${from}>${to}`, port),
    betweenElections: (from, to, port) => through(`${from}>${to} elections`, port),
    isolate(n) {
      const cut = [...cables]
        .filter(([key]) => new RegExp(`^${n}>|>${n}\\b`).test(key))
        .map(([, cable]) => cable)
      for (const cable of cut) cable.blackHole()
      return () => {
        for (const cable of cut) cable.heal()
      }
    },
    stop: async () => {
      for (const cable of cables.values()) await cable.stop()
    },
  }
}
