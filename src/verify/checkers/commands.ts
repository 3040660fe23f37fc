import type { History } from '../history.js'
import { type Violation, violation } from '../violation.js'

export interface CommandsOptions {
  /** Maximum number of store commands per acquisition, on average. */
  readonly max: number
}

/** Commands the store received, by its own counter (`commands` events), per completed acquisition. */
export function commands(history: History, options: CommandsOptions): Violation[] {
  const readings = history.events.filter((event) => event.op === 'commands')
  const first = readings[0]
  const last = readings.at(-1)
  if (first === undefined || last === undefined || first === last) return []
  const sent = (last.count ?? 0) - (first.count ?? 0)
  const isServed = (t: number | undefined) => t !== undefined && t >= first.t && t <= last.t
  const served = history.acquisitions.filter((one) => isServed(one.granted)).length
  if (sent <= options.max * served) return []
  const each =
    served === 0 ? 'for no acquisition' : `for ${served} acquisitions, ${(sent / served).toFixed(2)} each`
  const message = `${sent} commands ${each}; at most ${options.max} each are allowed`
  return [violation(history, { rule: 'commands', name: '', message, at: last.t, parties: [] })]
}
