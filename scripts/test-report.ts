// What a run of the tests tells on stdout: each file when it is over, then the failures again, the slowest files and the totals.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pc from 'picocolors'
import { root } from './test-files.js'
import { added, type FileResult, kinds, type Totals } from './test-process.js'

const totalsFile = join(root, 'build/test-totals.json')

export function print(text: string): void {
  const clear = process.stdout.isTTY ? '\r\x1b[K' : ''
  const coloured = pc.isColorSupported ? text.replace(/^ *✔/gm, pc.green).replace(/^ *✖/gm, pc.red) : text
  process.stdout.write(`${clear}${coloured}\n`)
}

/** Prints failures, the slowest files, and the totals last. Returns the number of tests that passed. */
export function report(results: readonly FileResult[], took: number, sumUp: boolean): number {
  const failed = results.filter(({ failures }) => failures !== '')
  if (failed.length > 0) print('\n✖ failing tests:')
  for (const { file, failures } of failed) print(`\n${file.source}\n${failures}`)
  if (results.length > 1) {
    const worked = results.reduce((total, one) => total + one.worked, 0)
    print(`\nthe slowest of ${results.length} files (${seconds(worked)} of processor time together):`)
    for (const result of [...results].sort((a, b) => b.took - a.took).slice(0, 10))
      print(`${times(result).padStart(30)}  ${result.file.source}`)
  }
  const own: Totals = { ...results.map(({ totals }) => totals).reduce(added, {}), duration_ms: took }
  const totals = sumUp ? withEarlier(own) : own
  writeFileSync(totalsFile, JSON.stringify(totals))
  for (const kind of [...kinds, 'duration_ms']) print(`ℹ ${kind} ${Math.round(totals[kind] ?? 0)}`)
  return own['pass'] ?? 0
}

/** For the log of CI, whose closing lines count every test of both runs. */
function withEarlier(totals: Totals): Totals {
  if (!existsSync(totalsFile)) return totals
  const earlier = JSON.parse(readFileSync(totalsFile, 'utf8')) as Totals
  return {
    ...added(earlier, totals),
    duration_ms: (earlier['duration_ms'] ?? 0) + (totals['duration_ms'] ?? 0),
  }
}

export function times({ took, worked }: FileResult): string {
  return `${seconds(took)} (${seconds(worked)} of processor)`
}

export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}
