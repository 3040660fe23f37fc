/** How a driver's answers match the promises: one column of the table driver × promise. */
import { transcript } from './answers.js'
import { chapters } from './chapters.js'
import type { Difference } from './differences.js'
import type { Answer } from './story.js'

/** One driver and one promise. */
export interface PromiseCell {
  readonly promise: string
  /** `broken`: the answer differs from all other drivers', and from what the driver declares. */
  readonly is: 'yes' | 'in part' | 'no' | 'broken'
  /** Why it is not `yes`: the driver's declared deviations. */
  readonly because: readonly { readonly id: string; readonly because: string }[]
  /** If `broken`: the expected answer and the actual one. */
  readonly wrong: readonly string[]
}

/** A driver's answers to the scenario. */
export interface PromiseColumn {
  /** The fixture's name. */
  readonly name: string
  readonly cells: readonly PromiseCell[]
}

/** The promises, in the order of the scenario. */
export const promises: readonly string[] = chapters.map(({ promise }) => promise)

const arrow = ' → '
const golden = parse(transcript)

/** @param declared all deviations that the driver and its fixture declare */
export function toCell(
  promise: string,
  answers: readonly Answer[],
  declared: readonly Difference[],
): PromiseCell {
  const because = declared.filter((difference) => difference.promise === promise)
  const wrong = compare(answers, expected(golden.get(promise) ?? [], because))
  if (wrong.length > 0) return { promise, is: 'broken', because: [], wrong }
  const is = because.some(({ is }) => is === 'no') ? 'no' : because.length > 0 ? 'in part' : 'yes'
  return { promise, is, because: because.map(({ id, because }) => ({ id, because })), wrong }
}

interface Expected {
  readonly what: string
  readonly got: readonly string[]
}

function expected(answers: readonly Answer[], differences: readonly Difference[]): readonly Expected[] {
  const all: Expected[] = answers.map(({ what, got }) => ({ what, got: [got] }))
  for (const { answers, ends = false } of differences) {
    for (const [what, got] of Object.entries(answers)) {
      const found = all.findIndex((one) => one.what === what)
      // An answer the scenario does not have goes to the end, where it is reported as missing.
      const at = found < 0 ? all.length : found
      all[at] = { what, got }
      if (ends) all.length = at + 1
    }
  }
  return all
}

function compare(answers: readonly Answer[], wanted: readonly Expected[]): string[] {
  const count = Math.max(answers.length, wanted.length)
  const lines = Array.from({ length: count }, (_, i) => {
    const [answer, want] = [answers[i], wanted[i]]
    if (answer !== undefined && want?.what === answer.what && want.got.includes(answer.got)) return undefined
    const line = want === undefined ? 'nothing' : `'${want.what}${arrow}${want.got.join(' or ')}'`
    return `${line} was expected, got ${answer === undefined ? 'nothing' : `'${answer.what}${arrow}${answer.got}'`}`
  })
  return lines.filter((line) => line !== undefined)
}

/** The inverse of `print`. */
function parse(text: string): ReadonlyMap<string, readonly Answer[]> {
  const parts = text.split(/^# /m).slice(1)
  return new Map(
    parts.map((part) => {
      const [promise = '', ...lines] = part.trimEnd().split('\n')
      const answers = lines.map((line) => {
        const [what = '', got = ''] = line.split(arrow)
        return { what, got }
      })
      return [promise, answers]
    }),
  )
}

/** A transcript in its stored form: one line per answer. */
export function print(answers: ReadonlyMap<string, readonly Answer[]>): string {
  const chapter = ([promise, answers]: readonly [string, readonly Answer[]]) =>
    [`# ${promise}`, ...answers.map(({ what, got }) => `${what}${arrow}${got}`)].join('\n')
  return [...answers].map(chapter).join('\n\n')
}
