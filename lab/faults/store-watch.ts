/** A store that answers nobody, as when its servers are starved. */
import type { Recorder } from 'holdfast/verify'

export const noAnswer = 'no answer of the store'
/** How often to ask, in ms. */
const look = 250

/** How long a store may take to answer before that counts, in ms. */
const prompt = 500

export interface StoreWatch {
  /** For how long the store has not answered so far, in ms. */
  missing(): number
  end(): Promise<void>
}

/**
 * Asks the store again and again, without holdfast, once the faults are over: servers that are starved lose their leader, and nobody can be
 * served meanwhile. What takes longer than half a second is recorded.
 */
export function watchStore(
  journal: Recorder,
  answers: (signal: AbortSignal) => Promise<unknown> = async () => undefined,
): StoreWatch {
  let over = false
  let missing = 0
  const ask = async () => {
    for (let before = performance.now(); !over; before = performance.now()) {
      const late = AbortSignal.timeout(prompt)
      const failed = await answers(late).then(
        () => false,
        () => true,
      )
      await new Promise((resolve) => setTimeout(resolve, look))
      const value = Math.round(performance.now() - before)
      if (!failed && value < prompt + look) continue
      missing += value
      journal.write({ op: 'fault', phase: 'info', kind: noAnswer, value })
    }
  }
  const asking = ask()
  return {
    missing: () => missing,
    end: () => {
      over = true
      return asking
    },
  }
}
