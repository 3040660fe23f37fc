// The table driver × promise in docs/promises.md. What stands in it is what the drivers answered: the test of each driver plays the scenario
// of the conformance suite on real servers, compares its column with docs/promises.json, and leaves what it got in build/promises.
//
//   npm test -- conformance --only='the scenario'
//   node build/scripts/promises-table.js            tells whether page and record are what the last tests got
//   node build/scripts/promises-table.js --write    writes both
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type PromiseCell, type PromiseColumn, promiseTable } from '../src/conformance/index.js'
import { transcript } from '../src/conformance/scenario/answers.js'
import { promises } from '../src/conformance/scenario/column.js'
import { differences } from '../src/conformance/scenario/differences.js'
import { reasons } from './promises-reasons.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const page = join(root, 'docs/promises.md')
const chinesePage = join(root, 'docs/zh/promises.md')
const record = join(root, 'docs/promises.json')
const last = join(root, 'build/promises')

/** All of them, in the order of README. */
export const columns = [
  'memory',
  'local',
  'redis',
  'redis (Cluster)',
  'redlock',
  'postgres',
  'postgres (session)',
  'mysql',
  'mysql (session)',
  'etcd',
  'zookeeper',
  'zookeeper (simple)',
  'consul',
] as const
export type ColumnName = (typeof columns)[number]

/** A column as it is written down: `yes`, `no: permits`, `in part: line, list` for each promise. */
export type Written = Readonly<Record<string, string>>
export type Answers = Readonly<Record<string, Written>>

export function written(cells: readonly PromiseCell[]): Written {
  const text = ({ is, because }: PromiseCell) =>
    because.length === 0 ? is : `${is}: ${because.map(({ id }) => id).join(', ')}`
  return Object.fromEntries(cells.map((cell) => [cell.promise, text(cell)]))
}

/** @throws Error for a cell that no column can have */
export function toColumn(name: string, cells: Written): PromiseColumn {
  return { name, cells: promises.map((promise) => toCell(name, promise, cells[promise] ?? '')) }
}

function toCell(column: string, promise: string, text: string): PromiseCell {
  const [is = '', ids] = text.split(': ')
  const because = (ids?.split(', ') ?? []).map((id) => {
    const found = differences.find((difference) => difference.id === id && difference.promise === promise)
    if (found === undefined)
      throw new Error(`${column}: no reason '${id}' for '${promise}' is declared anywhere`)
    return { id, because: found.because, is: found.is }
  })
  const worst = because.some(({ is }) => is === 'no') ? 'no' : because.length > 0 ? 'in part' : 'yes'
  if (is !== worst) throw new Error(`${column}: '${promise}' cannot be '${text}'`)
  return { promise, is: worst, because: because.map(({ id, because }) => ({ id, because })), wrong: [] }
}

/** What the tests found last, if they ran here. */
export function lastAnswers(): Answers {
  if (!existsSync(last)) return {}
  const files = readdirSync(last).filter((file) => file.endsWith('.json'))
  return Object.fromEntries(
    files.map((file) => [file.slice(0, -'.json'.length), JSON.parse(readFileSync(join(last, file), 'utf8'))]),
  )
}

/** Keeps what a test found for `--write`. */
export function keep(name: ColumnName, cells: Written): void {
  mkdirSync(last, { recursive: true })
  writeFileSync(join(last, `${name}.json`), JSON.stringify(cells, null, 2))
}

export function recorded(): Answers {
  return existsSync(record) ? JSON.parse(readFileSync(record, 'utf8')) : {}
}

const parts = {
  table: ['<!-- table: made by scripts/promises-table.ts -->', '<!-- end of the table -->'],
  story: ['<!-- answers: made by scripts/promises-table.ts -->', '<!-- end of the answers -->'],
} as const

/** The page as it has to be by this record. @throws Error where a column is missing, or the page has no place */
export function toPage(is: string, record: Answers): string {
  const table = promiseTable(
    columns.map((name) => {
      const cells = record[name]
      if (cells === undefined) throw new Error(`docs/promises.json has no column '${name}'; run its tests`)
      return toColumn(name, cells)
    }),
    reasons,
  )
  return withAnswers(filled(is, parts.table, table))
}

function withAnswers(text: string): string {
  return filled(text, parts.story, `\`\`\`text\n${transcript.trim()}\n\`\`\``)
}

function filled(text: string, [begin, end]: readonly [string, string], content: string): string {
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`docs/promises.md has no ${begin} … ${end}`)
  return `${text.slice(0, from)}${begin}\n\n${content}\n\n${text.slice(to)}`
}

/** The page, and the same as the record says. */
export function currentPage(): { readonly is: string; readonly shouldBe: string } {
  const is = readFileSync(page, 'utf8')
  return { is, shouldBe: toPage(is, recorded()) }
}

function main(): void {
  const newest = { ...recorded(), ...lastAnswers() }
  const ordered = Object.fromEntries(columns.flatMap((name) => (newest[name] ? [[name, newest[name]]] : [])))
  const text = `${JSON.stringify(ordered, null, 2)}\n`
  const shouldBe = toPage(readFileSync(page, 'utf8'), ordered)
  if (process.argv.includes('--write')) {
    writeFileSync(record, text)
    writeFileSync(page, shouldBe)
    writeFileSync(chinesePage, withAnswers(readFileSync(chinesePage, 'utf8')))
    return
  }
  const stale = [
    ...(existsSync(record) && readFileSync(record, 'utf8') === text ? [] : ['docs/promises.json']),
    ...(readFileSync(page, 'utf8') === shouldBe ? [] : ['docs/promises.md']),
  ]
  if (stale.length === 0) return
  console.error(`${stale.join(' and ')} are not what the tests got; run this with --write`)
  process.exitCode = 1
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main()
