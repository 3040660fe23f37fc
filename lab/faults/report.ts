/** A run as Markdown for people, JSON for machines and a picture of its most eventful moments. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createTimeline, type History, printViolation, renderSvg, type Timeline } from 'holdfast/verify'
import { atLength, printFinding } from './finding.js'
import type { RunResult } from './run.js'

export interface Summary {
  readonly driver: string
  readonly seed: number
  readonly verdict: 'no violation' | 'violated' | 'incomplete'
  readonly faults: number
  readonly acquisitions: number
  readonly granted: number
  readonly violations: number
  readonly excused: number
}

export function summarize(result: RunResult): Summary {
  const { name, seed, plan, counts, violations, excused, complaints } = result
  return {
    driver: name,
    seed,
    verdict: violations.length > 0 ? 'violated' : complaints.length > 0 ? 'incomplete' : 'no violation',
    faults: plan.length,
    acquisitions: counts.acquisitions,
    granted: counts.granted,
    violations: violations.length,
    excused: excused.length,
  }
}

/** Writes `report.md`, `report.json`, `timeline.svg`. @returns the folder */
export function writeReport(result: RunResult, folder: string): string {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'report.md'), markdown(result))
  writeFileSync(join(folder, 'report.json'), `${JSON.stringify(plain(result), undefined, 2)}\n`)
  writeFileSync(join(folder, 'timeline.svg'), renderSvg(picture(result)))
  return folder
}

/** Everything except the history, which is large. */
export function plain(result: RunResult): object {
  const { history: _, violations, excused, ...rest } = result
  return {
    ...summarize(result),
    ...rest,
    violations: violations.map(({ rule, name, message, at }) => ({ rule, name, message, at: at / 1e6 })),
    excused: excused.map(({ violation, fault, why }) => ({
      rule: violation.rule,
      message: violation.message,
      fault,
      why,
    })),
  }
}

export function markdown(result: RunResult): string {
  const { name, about, seed, seconds, workers, ttl, versions, faults, counts, took } = result
  const summary = summarize(result)
  const rows = Object.entries(faults).map(([kind, count]) => `| ${kind} | ${count} |`)
  const refused = Object.entries(counts.refused).map(([why, count]) => `${count} × ${why}`)
  const lines = [
    `# ${name}: ${summary.verdict}`,
    '',
    `${about}. ${workers} worker ${workers === 1 ? 'process' : 'processes'}, ttl ${ttl} ms, seed ${seed}, faults for ${seconds} s, ${took.toFixed(1)} s in all.`,
    `Versions: ${Object.entries(versions)
      .map(([what, version]) => `${what} ${version}`)
      .join(', ')}. History: ${counts.events} events, sha256 ${result.sha256}.`,
    '',
    '| | |',
    '|---|---|',
    `| acquisitions asked for | ${counts.acquisitions} |`,
    `| granted | ${counts.granted} |`,
    `| ended without the lock | ${refused.join(', ') || 'none'} |`,
    `| told to be lost | ${counts.lost} |`,
    `| renewals | ${counts.renewals} |`,
    `| guarded writes accepted, stale ones refused | ${counts.guarded}, ${counts.stale} |`,
    `| a process of the lab starved by the machine | ${(counts.starved / 1000).toFixed(1)} s |`,
    ...reuses(result),
    `| **violations** | **${result.violations.length}** |`,
    `| seen where the driver promises nothing | ${result.excused.length} |`,
    '',
    '## What was done',
    '',
    '| fault | times |',
    '|---|---|',
    ...rows,
    ...section('What went wrong with the run', result.complaints),
    ...section('Seen where the driver promises nothing', excuses(result)),
  ]
  if (result.violations.length > 0) {
    lines.push('', '## Violations', '')
    for (const violation of result.violations.slice(0, atLength))
      lines.push('```', printFinding(result.history, violation), '```', '')
    for (const violation of result.violations.slice(atLength, 10))
      lines.push('```', printViolation(violation), '```', '')
    if (result.violations.length > 10) lines.push(`… and ${result.violations.length - 10} more.`)
  }
  return `${lines.join('\n').trimEnd()}\n`
}

function reuses({ caching }: RunResult): string[] {
  if (caching === undefined) return []
  const { lingering, reused, gaveWay } = caching
  const none = reused === 0 ? ' **No lock was ever used again: this run says nothing of `linger`.**' : ''
  return [
    `| granted with \`linger\`, used again without a request, given to others meanwhile | ${lingering}, ${reused}, ${gaveWay}.${none} |`,
  ]
}

function section(title: string, items: readonly string[]): string[] {
  return items.length === 0 ? [] : ['', `## ${title}`, '', ...items.map((item) => `- ${item}`)]
}

function excuses({ excused }: RunResult): string[] {
  const counts = new Map<string, number>()
  for (const { violation, fault, why } of excused) {
    const key = `${violation.rule} after '${fault}': ${why}`
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  return [...counts].map(([what, count]) => `${count} × ${what}`)
}

/** Milliseconds of history in the picture. */
const windowMs = 2_000

/** The period around the first violation, or else the one with the most faults, for the name with the fewest acquisitions there. */
function picture({ history, violations, name, seed }: RunResult): Timeline {
  const first = violations.find((one) => one.name !== '')
  const middle = first?.at ?? busiest(history)
  const from = Math.max(0, middle - (windowMs / 2) * 1e6)
  const to = from + windowMs * 1e6
  const within = history.acquisitions.filter((one) => one.invoked < to && (one.events.at(-1)?.t ?? 0) > from)
  const counts = new Map<string, number>()
  for (const one of within) counts.set(one.name, (counts.get(one.name) ?? 0) + 1)
  // The name with the fewest bars is readable.
  const subject = first?.name ?? [...counts].sort((a, b) => a[1] - b[1])[0]?.[0] ?? ''
  const title = `${name}, seed ${seed}: ${subject}`
  const concerned = within.filter((one) => one.name === subject)
  const { events } = history
  const near = {
    acquisitions: concerned,
    events: events.filter((one) => one.op === 'fault'),
    end: history.end,
  }
  return createTimeline(near, { name: subject, violations, from, to, title })
}

function busiest(history: History): number {
  const times = history.events.filter((one) => one.op === 'fault').map((one) => one.t)
  let best = times[0] ?? 0
  let most = 0
  for (const [i, t] of times.entries()) {
    const count = times.findIndex((other, j) => j >= i && other > t + windowMs * 1e6)
    const size = (count < 0 ? times.length : count) - i
    if (size > most) {
      most = size
      best = t + (windowMs / 2) * 1e6
    }
  }
  return best
}
