/** Findings, for people and as data. */
import { plain } from '../print.js'
import type { Check } from '../setup/check.js'

export type Level = 'problem' | 'warning' | 'unknown' | 'ok'

export interface Finding {
  /** `problem`: locks fail, or two processes can hold one. `warning`: safe or almost so, at a stated price. `unknown`: could not be checked. */
  readonly level: Level
  readonly what: string
  readonly found: string
  /** Consequence for locks. */
  readonly means?: string
  /** What to change. */
  readonly remedy?: string
}

export interface Diagnosis {
  /** Without password. */
  readonly url: string
  readonly verdict: 'fine' | 'warnings' | 'problems'
  /** Worst first. */
  readonly findings: readonly Finding[]
}

const levels: Readonly<Record<Check['verdict'], Level>> = {
  bad: 'problem',
  weak: 'warning',
  'not checked': 'unknown',
  ok: 'ok',
}
const order: readonly Level[] = ['problem', 'warning', 'unknown', 'ok']

/** @param url without its password */
export function diagnose(url: string, checks: readonly Check[]): Diagnosis {
  const findings = checks
    .map(({ verdict, ...rest }): Finding => ({ level: levels[verdict], ...rest }))
    .sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level))
  const has = (level: Level) => findings.some((finding) => finding.level === level)
  return { url, verdict: has('problem') ? 'problems' : has('warning') ? 'warnings' : 'fine', findings }
}

/** Formats text of a level for a terminal. */
export type Paint = (level: Level, text: string) => string

export function formatDiagnosis({ url, verdict, findings }: Diagnosis, paint: Paint): string {
  const lines = findings.flatMap(({ level, what, found, means, remedy }) => [
    `${paint(level, level.padEnd(7))}  ${plain(`${what}: ${found}`)}`,
    ...(means === undefined ? [] : [`${indent}${plain(means)}`]),
    ...(remedy === undefined ? [] : [`${indent}change: ${plain(remedy)}`]),
  ])
  return [`${url} ${headline(verdict, findings)}`, '', ...lines].join('\n')
}

/** The width of a level and the space after it. */
const indent = ' '.repeat(9)

function headline(verdict: Diagnosis['verdict'], findings: readonly Finding[]): string {
  const number = (level: Level) => findings.filter((finding) => finding.level === level).length
  const counted = (['problem', 'warning'] as const)
    .filter((level) => number(level) > 0)
    .map((level) => `${number(level)} ${level}${number(level) === 1 ? '' : 's'}`)
    .join(', ')
  if (verdict === 'problems') return `is not fit for locks: ${counted}`
  if (verdict === 'warnings') return `is fit for locks, with ${counted}`
  return `is set up for locks${number('unknown') > 0 ? ', as far as could be seen' : ''}`
}
