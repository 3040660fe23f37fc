// Two processes get the same requests at the same time and carry them out under `once`; one of them is killed with -9 at a chosen moment,
// and then everything is requested again, as a client does whose connection broke. What every process answered and what is in the store
// is judged by `judge`.
import { type ChildProcess, fork } from 'node:child_process'
import { once as nextEvent } from 'node:events'
import { fileURLToPath } from 'node:url'

export interface OnceTask {
  readonly store: 'postgres' | 'mysql' | 'redis'
  readonly url: string
  /** Not `once`, but what it replaces: a look before the work and a note after it. */
  readonly broken?: boolean
}

/** What the work wrote, and which run of it. */
export interface Effect {
  readonly key: string
  readonly run: string
}

export interface Outcome {
  readonly result: Effect
  readonly repeated: boolean
}

const moments = ['before', 'written', 'committed'] as const
export type Note =
  | { readonly ready: true }
  | { readonly at: (typeof moments)[number]; readonly key: string }
  | { readonly answered: string; readonly outcome?: Outcome; readonly error?: string }

type Answer = Extract<Note, { answered: string }>

export interface Loop {
  readonly task: OnceTask
  readonly rounds: number
  /** The runs whose effect for this key is in the store. */
  effects(key: string): Promise<readonly string[]>
  /** An effect of a killed process may stand beside that of the run that was answered: a lock cannot take it back. */
  readonly keepsEffectsOfTheKilled: boolean
}

export interface LoopResult {
  readonly findings: readonly string[]
  readonly kills: number
  /** Answers that an earlier run had given. */
  readonly repeated: number
}

const keysAtOnce = 12

export async function onceLoop({
  task,
  rounds,
  effects,
  keepsEffectsOfTheKilled,
}: Loop): Promise<LoopResult> {
  const findings: string[] = []
  const [counts, start] = [{ kills: 0, repeated: 0 }, () => Worker.start(task)]
  let workers: readonly Worker[] = await Promise.all([start(), start()])
  try {
    for (let round = 0; round < rounds; round++) {
      const keys = Array.from({ length: keysAtOnce }, (_, i) => `request ${round}.${i}`)
      const moment = [...moments, 'some time', 'never'][round % 5] as string
      const victim = workers[round % 2] as Worker
      victim.dieAt(moment, 1 + Math.floor(Math.random() * 4))
      const answers = (await Promise.all(workers.map((worker) => worker.request(keys)))).flat()
      victim.mayLive()
      if (victim.isGone) counts.kills++
      workers = await Promise.all(workers.map((worker) => (worker.isGone ? start() : worker)))
      answers.push(...(await Promise.all(workers.map((worker) => worker.request(keys)))).flat())
      counts.repeated += answers.filter(({ outcome }) => outcome?.repeated).length
      for (const key of keys) {
        const own = answers.filter(({ answered }) => answered === key)
        const found = await effects(key)
        const ofTheKilled = (run: string) =>
          keepsEffectsOfTheKilled && victim.isGone && run.startsWith(`${victim.pid}:`)
        findings.push(...judge(key, own, found, ofTheKilled).map((text) => `${text} (kill: ${moment})`))
      }
    }
  } finally {
    await Promise.all(workers.map((worker) => worker.kill()))
  }
  return { findings, ...counts }
}

/** One effect, of the run whose result everybody got. */
export function judge(
  key: string,
  answers: readonly Answer[],
  effects: readonly string[],
  ofTheKilled: (run: string) => boolean,
): string[] {
  const results = new Set(answers.flatMap(({ outcome }) => (outcome ? [JSON.stringify(outcome.result)] : [])))
  const answered = answers.find(({ outcome }) => outcome !== undefined)?.outcome?.result
  const others = effects.filter((run) => run !== answered?.run)
  return [
    ...answers.flatMap(({ error }) => (error === undefined ? [] : [`${key}: ${error}`])),
    ...(answered === undefined ? [`${key}: no answer`] : []),
    ...(results.size > 1 ? [`${key}: different results ${[...results].join(', ')}`] : []),
    ...(answered !== undefined && answered.key !== key ? [`${key}: the result of ${answered.key}`] : []),
    ...(answered !== undefined && !effects.includes(answered.run)
      ? [`${key}: a result without its effect`]
      : []),
    ...(others.filter((run) => !ofTheKilled(run)).length > 0 || others.length > 1
      ? [`${key}: ${effects.length} effects, ${effects.join(', ')}`]
      : []),
  ]
}

class Worker {
  isGone = false
  readonly pid: number
  readonly #child: ChildProcess
  readonly #exited: Promise<unknown>
  #moment = 'never'
  #notesLeft = 0
  #timer: NodeJS.Timeout | undefined

  private constructor(child: ChildProcess) {
    this.#child = child
    this.pid = child.pid ?? 0
    this.#exited = nextEvent(child, 'exit')
    child.on('message', (note: Note) => {
      if ('at' in note && note.at === this.#moment && --this.#notesLeft === 0) void this.kill()
    })
  }

  static async start(task: OnceTask): Promise<Worker> {
    const file = fileURLToPath(new URL('once-worker.js', import.meta.url))
    const child = fork(file, [JSON.stringify(task)], { execArgv: [] })
    const worker = new Worker(child)
    await nextEvent(child, 'message')
    return worker
  }

  /** It is killed at its note number `count` of this kind, or within 40 ms. */
  dieAt(moment: string, count: number): void {
    this.#moment = moment
    this.#notesLeft = count
    if (moment === 'some time') this.#timer = setTimeout(() => void this.kill(), Math.random() * 40)
  }

  /** It is not killed any more, where it did not come that far: the others were faster. */
  mayLive(): void {
    this.#moment = 'never'
    clearTimeout(this.#timer)
  }

  /** Resolves with the answers, once all are there or the process is gone. */
  async request(keys: readonly string[]): Promise<Answer[]> {
    const answers: Answer[] = []
    const all = new Promise<void>((resolve) => {
      const listen = (note: Note) => {
        if (!('answered' in note)) return
        if (answers.push(note) < keys.length) return
        this.#child.off('message', listen)
        resolve()
      }
      this.#child.on('message', listen)
    })
    this.#child.send(keys, () => undefined)
    await Promise.race([all, this.#exited])
    return answers
  }

  /** With -9; resolves when it is gone. */
  async kill(): Promise<void> {
    this.isGone = true
    this.#child.kill('SIGKILL')
    await this.#exited
  }
}
