/** A row of the table, walked through and compared with what must come out. */
import { modelFile } from './page.js'
import { type Answer, type Bounds, check, type Tools } from './spin.js'
import type { Row } from './table.js'

export interface Outcome {
  readonly row: Row
  /** Undefined: it could not be run. */
  readonly answer: Answer | undefined
  /** What is not as expected. */
  readonly failure: string | undefined
}

/** @throws Error when the verdict, or the number of states of a run that holds, differs from the table */
export async function checkRow(row: Row, bounds: Bounds, tools: Tools): Promise<Answer> {
  const { model, defines, asks, states, way } = row
  const answer = await check(
    { file: modelFile(model), defines, asks, states, shortest: way === 'shortest' },
    bounds,
    tools,
  )
  const failure = findDifference(row, answer)
  if (failure !== undefined) throw new Unexpected(failure, answer)
  return answer
}

export class Unexpected extends Error {
  override readonly name = 'Unexpected'
  readonly answer: Answer

  constructor(message: string, answer: Answer) {
    super(message)
    this.answer = answer
  }
}

function findDifference({ expected, states }: Row, answer: Answer): string | undefined {
  if (answer.verdict !== expected) {
    const how = expected === 'holds' || answer.story.length === 0 ? [] : ['instead:', ...answer.story]
    return [
      `expected '${expected}', got '${answer.verdict}'`,
      ...(expected === 'holds' ? answer.story : how),
    ].join('\n      ')
  }
  if (expected !== 'holds' || answer.states === states) return undefined
  return (
    `it holds, but over ${answer.states} states instead of ${states}: if the model was changed on purpose, ` +
    'correct the number in lab/models/table.ts'
  )
}

/** Nothing is thrown: a run that failed is an outcome too. */
export async function toOutcome(row: Row, judged: () => Promise<Answer>): Promise<Outcome> {
  try {
    return { row, answer: await judged(), failure: undefined }
  } catch (error) {
    const failure = error instanceof Error ? error.message : String(error)
    return { row, answer: error instanceof Unexpected ? error.answer : undefined, failure }
  }
}

/** Works on `jobs` things at a time and tells of each in the order they were given. Begins nothing more once `signal` aborts. */
export async function runInOrder<T, R>(
  things: readonly T[],
  jobs: number,
  work: (thing: T) => Promise<R>,
  tell: (result: R) => void,
  signal: AbortSignal,
): Promise<void> {
  const left = [...things.entries()]
  const done = new Map<number, R>()
  let told = 0
  async function worker(): Promise<void> {
    for (let next = left.shift(); next !== undefined && !signal.aborted; next = left.shift()) {
      done.set(next[0], await work(next[1]))
      for (let result = done.get(told); result !== undefined; result = done.get(told)) {
        tell(result)
        told++
      }
    }
  }
  await Promise.all(Array.from({ length: jobs }, worker))
}
