/** The history of one scene, recorded by all its players: processes of the operating system, and clients with their own connections. */
import { createHistory, type Entry, type Event, type History, type Recorder } from 'holdfast/verify'

/** An entry on its way from a child process: JSON has no bigint. */
export type SentEntry = Omit<Entry, 'until'> & { readonly t: string; readonly until?: string }

export class SceneHistory {
  readonly #origin: bigint = process.hrtime.bigint()
  readonly #events: Event[] = []
  #faults = 0
  /** Ends what lasts until the next grant. */
  #atGrant: (() => void) | undefined

  /** @param player its name in the picture; `pid` what faults are aimed at */
  recorder(player: string, pid: number): Recorder {
    return recorderTo(player, (t, { until, ...entry }) => {
      const event = { ...entry, t: this.#since(t), pid, client: player }
      if (entry.op === 'acquire' && entry.phase === 'ok') this.#ending()
      this.#events.push(until === undefined ? event : { ...event, until: this.#since(until) })
    })
  }

  /** What a child has sent. */
  take(player: string, pid: number, { t, until, ...entry }: SentEntry): void {
    const told = until === undefined ? entry : { ...entry, until: BigInt(until) }
    this.recorder(player, pid).write(told, BigInt(t))
  }

  /** Marks a fault of one player or of all; the returned function marks its end. */
  fault(kind: string, target?: number): () => void {
    const attempt = `fault:${++this.#faults}`
    const nemesis = this.recorder('the scene', 0)
    const about = { op: 'fault', kind, attempt, ...(target !== undefined && { target }) } as const
    nemesis.write({ ...about, phase: 'invoke' })
    return () => nemesis.write({ ...about, phase: 'ok' })
  }

  /** The store grants nothing, from now until it grants again. */
  quarantine(): void {
    this.#atGrant = this.fault('quarantine')
  }

  #ending(): void {
    this.#atGrant?.()
    this.#atGrant = undefined
  }

  history(): History {
    return createHistory(this.#events)
  }

  #since(t: bigint): number {
    return Number(t - this.#origin)
  }
}

export function recorderTo(client: string, put: (t: bigint, entry: Entry) => void): Recorder {
  const now = () => process.hrtime.bigint()
  return {
    client,
    now,
    write: (entry, t = now()) => put(t, entry),
    fault: () => () => undefined,
    close: () => undefined,
  }
}
