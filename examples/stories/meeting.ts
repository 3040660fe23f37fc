/**
 * How long a worker waits between read and write: until another one has read too, so that the failure occurs on fast and slow
 * machines alike; or until all are waiting, or nobody comes.
 */
import type { Sql } from 'holdfast/guard'

/** Nobody comes when the others wait for a row that this one has changed. */
const longest = 250

export class Meeting {
  #working: number
  readonly #waiting = new Set<() => void>()

  constructor(workers: number) {
    this.#working = workers
  }

  /** Another process has read the value. Every process that is waiting by then continues. */
  readonly watched: (db: Sql) => Sql = ({ dialect, run }) => ({
    dialect,
    run: async (text, values) => {
      const before = [...this.#waiting]
      const answer = await run(text, values)
      if (text.startsWith('select')) for (const goOn of before) goOn()
      return answer
    },
  })

  readonly pause: () => Promise<void> = () =>
    new Promise((resolve) => {
      const goOn = () => {
        clearTimeout(timer)
        this.#waiting.delete(goOn)
        resolve()
      }
      const timer = setTimeout(goOn, longest)
      this.#waiting.add(goOn)
      this.#look()
    })

  readonly left: () => void = () => {
    this.#working--
    this.#look()
  }

  #look(): void {
    if (this.#waiting.size >= this.#working) for (const goOn of [...this.#waiting]) goOn()
  }
}
