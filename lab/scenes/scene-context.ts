/** The context of one lock in a scene: its history, its clean-up, and its servers. */
import { startProxy, type TcpProxy } from '../../test/support/proxy.js'
import { until } from '../../test/support/until.js'
import { SceneHistory } from './history.js'
import { sceneTimeout } from './lock.js'
import type { Servers } from './servers.js'

/** The lock whose holders are in the picture. */
export const order = 'order:7'

let rooms = 0

export class SceneContext implements AsyncDisposable {
  readonly history: SceneHistory = new SceneHistory()
  readonly servers: Servers
  /** Several scenes use a server at a time: names of nodes, keys and databases begin with this. */
  readonly prefix: string = `lab${++rooms}`
  readonly #stack: (() => unknown)[] = []

  constructor(servers: Servers) {
    this.servers = servers
  }

  /** Undone at the end, the newest first. */
  keep(undo: () => unknown): void {
    this.#stack.push(undo)
  }

  async cable(server: { readonly port: number }): Promise<TcpProxy> {
    const cable = await startProxy({ port: server.port })
    this.keep(() => cable.stop())
    return cable
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const undo of this.#stack.reverse()) await undo()
  }
}

/** Resolves after this much time: for scenes that are about time. */
export async function elapsed(ms: number): Promise<void> {
  const since = performance.now()
  await until(() => performance.now() - since >= ms, { within: ms + sceneTimeout, what: `${ms} ms to go by` })
}
