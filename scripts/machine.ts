// How busy the machine is: how many tasks are ready to run for each processor. A test that waits for servers suffers when there are many,
// and a limit of wall time then says little about a test.
import { readFileSync } from 'node:fs'
import { availableParallelism, loadavg } from 'node:os'

export const processors: number = Math.max(availableParallelism(), 2)

/** In ms. A mean over some two seconds, because a moment says nothing. */
const every = 250
const smoothing = 0.12

export class Machine {
  #ready = readyTasks()
  /** Of our own, at low priority: they step aside for whatever else is ready, so they are no load. */
  background = 0
  #at = performance.now()
  #progress = 0
  readonly #timer: NodeJS.Timeout

  /** @param sampled called after each look at the machine */
  constructor(sampled: () => void) {
    this.#timer = setInterval(() => {
      this.#sample()
      sampled()
    }, every)
  }

  /** Tasks that are running or ready to run, for each processor. */
  get load(): number {
    return Math.max(0, this.#ready - this.background) / processors
  }

  /**
   * Milliseconds that a process of usual priority could have worked so far: less than by the wall while others want the processors too, or
   * while the machine slept.
   */
  get progress(): number {
    return this.#progress
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #sample(): void {
    this.#ready += smoothing * (readyTasks() - this.#ready)
    const now = performance.now()
    this.#progress += Math.min(now - this.#at, 4 * every) / Math.max(1, this.load)
    this.#at = now
  }
}

/** Without us, who look. Where there is no /proc, the mean of the last minute has to do. */
function readyTasks(): number {
  try {
    const count = /^procs_running (\d+)$/m.exec(readFileSync('/proc/stat', 'latin1'))?.[1]
    if (count !== undefined) return Number(count) - 1
  } catch {}
  return loadavg()[0] ?? 0
}
