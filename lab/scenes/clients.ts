/** The players of a scene whose store several scenes share. Each has its own connection, which can be cut. */
import type { TcpProxy } from '../../test/support/proxy.js'
import { type At, type Lock, type SharedWay, sceneTimeout } from './lock.js'
import type { SceneContext } from './scene-context.js'

export interface Located {
  readonly port: number
}

export interface SceneClient {
  /** For `fault`. */
  readonly pid: number
  readonly at: At
  readonly lock: Lock
  readonly cable: TcpProxy
}

export class SceneClients<Server extends Located, Way extends SharedWay> {
  readonly place: SceneContext
  readonly server: Server
  readonly way: Way
  readonly #session: number | undefined
  #members = 0

  constructor(place: SceneContext, server: Server, way: Way, session?: number) {
    this.place = place
    this.server = server
    this.way = way
    this.#session = session
  }

  /** One that has used locks before, and is connected. */
  readonly member = async (name: string): Promise<SceneClient> => {
    const pid = ++this.#members
    const cable = await this.place.cable(this.server)
    const at = {
      address: `${cable.host}:${cable.port}`,
      room: this.place.prefix,
      ...(this.#session && { session: this.#session }),
    }
    const lock = this.way.open(at, this.place.history.recorder(name, pid))
    this.place.keep(() => lock.close())
    await (await lock.take(`rehearsal ${pid}`, 3_000, sceneTimeout))?.release()
    return { pid, at, lock, cable }
  }
}
