/** `holdfast demo`: many processes do the same job, without the lock and with it. */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { target } from '../connect.js'
import { badInput, exits } from '../exit.js'
import { json } from '../print.js'
import { reportStore } from '../store-url.js'
import type { TlsOptions } from '../tls-options.js'
import { tlsOptions } from './options.js'

interface DemoOptions extends TlsOptions {
  readonly workers: string
  readonly orders?: string
  readonly svg?: string
  readonly on?: string
  readonly json?: true
}

export function demoCommandLine(program: Command): void {
  const command = program
    .command('demo')
    .summary('many processes book points at once, without the lock and with it')
    .description(
      'Many processes book the same orders on one shared file of points: first without a lock, then with one. ' +
        'Shows what came out, and who was inside when.',
    )
    .option('--workers <n>', 'processes, from 2 to 32', '6')
    .option('--orders <file>', 'your own balances and orders, as JSON (see docs/cli.md)')
    .option('--svg <file>', 'where to draw the picture (default: a file in the temporary folder)')
    .option('--on <store>', 'the store to lock on (default: a local: one of its own)')
  tlsOptions(command).option('--json', 'print JSON').action(demo)
}

async function demo(options: DemoOptions): Promise<void> {
  if (!/^\d+$/.test(options.workers) || Number(options.workers) < 2 || Number(options.workers) > 32) {
    throw badInput(`--workers must be a whole number from 2 to 32, got '${options.workers}'`)
  }
  const [{ readInput }, { sample }, { runPhase }, show] = await Promise.all([
    import('../demo/input.js'),
    import('../demo/sample.js'),
    import('../demo/phase.js'),
    import('../demo/show.js'),
  ])
  const input = options.orders === undefined ? sample : readInput(options.orders)
  const workers = Number(options.workers)
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-demo-'))
  const store = target(options.on ?? `local:${join(folder, 'locks')}`, options)
  reportStore(store, { json: options.json })
  const name = `points-${randomBytes(3).toString('hex')}`
  const say = (text: string) => options.json !== true && console.log(text)
  try {
    say(introduction(input.orders.length, workers, options.orders === undefined))
    const phase = { input, workers, name }
    const without = await runPhase({ ...phase, folder: join(folder, 'without'), lock: undefined })
    const held = await runPhase({
      ...phase,
      folder: join(folder, 'with'),
      lock: { on: store.url, insecure: store.insecure, name },
    })
    const halves = { name, without, with: held }
    const file = resolve(options.svg ?? `${folder}.svg`)
    writeFileSync(file, show.svg(halves))
    const ok = held.exact && held.violations.length === 0
    if (options.json === true) console.log(json(facts(halves, file, ok)))
    else say(await story(halves, show, file, ok))
    if (!ok) process.exitCode = exits.failed
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

type Show = typeof import('../demo/show.js')
type Halves = Parameters<Show['svg']>[0]

function introduction(orders: number, workers: number, sample: boolean): string {
  const about = sample
    ? 'One redeems 999 of 1000 points while others add 100; some orders are submitted twice or thrice.'
    : 'An order that is there more than once was submitted more than once, and counts once.'
  return [
    `${workers} processes book ${orders} submissions of orders on one shared file of points.`,
    about,
    'Each process reads the file, looks whether the order was booked already, works for a few milliseconds,',
    'and writes the file back.',
    '',
  ].join('\n')
}

async function story(halves: Halves, show: Show, file: string, ok: boolean): Promise<string> {
  const { name, without, with: held } = halves
  const color = (await import('picocolors')).default.isColorSupported
  const width = Math.min(process.stdout.columns || 100, 140)
  const luck = without.exact
    ? 'Without the lock nothing went wrong this time. That was luck: run it again, or with more --workers.'
    : `Without the lock ${without.lost} of ${without.booked} bookings were overwritten and ${without.duplicates} orders booked again.`
  const verdict = ok
    ? `With the lock every balance is exact: ${held.booked} orders booked once each, ${held.skipped} repeated submissions skipped, and the checker found no violation in ${held.history.acquisitions.length} holds.`
    : `With the lock the outcome is NOT right; that is a fault in holdfast. The checker found ${held.violations.length} violations.`
  const { printViolation } = await import('holdfast/verify')
  return [
    show.picture('Without the lock (╳: two inside at once)', name, without, width, color),
    '',
    show.picture('With the lock (each hold with its token)', name, held, width, color),
    '',
    await show.comparison(halves),
    '',
    luck,
    verdict,
    ...held.violations.slice(0, 3).map(printViolation),
    '',
    `The picture: ${file}`,
  ].join('\n')
}

function facts({ without, with: held }: Halves, file: string, ok: boolean): object {
  const half = ({ history, violations, ...rest }: Halves['with']) => ({
    ...rest,
    holds: history.acquisitions.length,
    violations: violations.map(({ rule, message }) => ({ rule, message })),
  })
  return { ok, without: half(without), with: half(held), svg: file }
}
