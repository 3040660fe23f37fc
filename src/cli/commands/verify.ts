/** `verify`: are locks on this store safe? Set-up, conformance and a client-side fault run, as a report for a review. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { type StoreTarget, target } from '../connect.js'
import { badInput, exits } from '../exit.js'
import { json } from '../print.js'
import { reportStore } from '../store-url.js'
import type { TlsOptions } from '../tls-options.js'
import type { VerifyReport } from '../verify/report.js'
import { onText, tlsOptions, verboseText } from './options.js'

interface Options extends TlsOptions {
  readonly on?: string
  readonly minutes: string
  readonly only?: string
  readonly out?: string
  readonly json?: true
  readonly verbose?: true
}

export function verifyCommandLine(program: Command): void {
  const command = program
    .command('verify')
    .summary('check that locks on a store are safe')
    .description(
      'Check that locks on a store are safe: its set-up, the conformance suite, and a run in which processes of this command are paused, blocked, killed and cut off. Nothing is done to the store, and no lock is touched but those made for it.',
    )
    .option('--on <store>', onText)
  tlsOptions(command)
    .option('--minutes <n>', 'of faults, after the conformance suite', '1')
    .option(
      '--only <words>',
      'of the conformance suite, tests with one of these words (between commas) in their names',
    )
    .option('--out <folder>', 'write report.md and report.json there')
    .option('--json', 'print JSON')
    .option('-v, --verbose', verboseText)
    .action(verify)
}

async function verify(options: Options): Promise<void> {
  const minutes = Number(options.minutes)
  if (!(minutes > 0 && minutes <= 1_440)) {
    throw badInput(`--minutes must be a number above 0 and up to 1440, got '${options.minutes}'`)
  }
  const store = target(options.on, options)
  const { url } = store
  reportStore(store, options)
  const tell = progress()
  // Clears the progress line, so that whatever comes next, or an error, starts on its own line.
  const found = await examine({ url, store, minutes, only: options.only, print: tell }).finally(() =>
    tell(''),
  )
  const { driver, setup, suite, faults } = found
  const { markdown, toVerdict } = await import('../verify/report.js')
  const { version } = JSON.parse(
    readFileSync(new URL('../../../../package.json', import.meta.url), 'utf8'),
  ) as {
    version: string
  }
  const report = {
    ...{ url: store.shown, driver, holdfast: version, node: process.version },
    ...{ at: new Date().toISOString(), setup, suite, faults },
  }
  const verdict = toVerdict(report)
  if (options.out !== undefined) {
    mkdirSync(options.out, { recursive: true })
    writeFileSync(join(options.out, 'report.md'), markdown(report))
    writeFileSync(
      join(options.out, 'report.json'),
      `${JSON.stringify({ verdict, ...report }, undefined, 2)}\n`,
    )
  }
  console.log(options.json === true ? json({ verdict, ...report }) : markdown(report).trimEnd())
  if (verdict === 'unsound') process.exitCode = exits.failed
}

interface Examination {
  readonly url: string
  readonly store: StoreTarget
  readonly minutes: number
  readonly only: string | undefined
  readonly print: (line: string) => void
}

async function examine({
  url,
  store,
  minutes,
  only,
  print,
}: Examination): Promise<Pick<VerifyReport, 'driver' | 'setup' | 'suite' | 'faults'>> {
  const { lazyDriver, probe } = await import('../verify/lazy-driver.js')
  const like = await probe(store)
  const [{ checkSetup }, { runSuite }, { runFaults }] = await Promise.all([
    import('../setup/setup.js'),
    import('../verify/suite.js'),
    import('../verify/faults.js'),
  ])
  print('looking at the set-up')
  const setup = await checkSetup(url)
  const suite = await runSuite(store, like, only?.split(',') ?? [], print)
  const ttl = Math.max(1_000, 2 * like.traits.minTtl)
  const direct = lazyDriver(store.connect, like)
  const faults = await runFaults({ url, insecure: store.insecure, seconds: 60 * minutes, ttl, direct, print })
  return { driver: like.name, setup, suite, faults }
}

/** One line rewritten in place, on a terminal only. */
function progress(): (line: string) => void {
  if (!process.stderr.isTTY) return () => undefined
  return (line) => void process.stderr.write(`\r\x1b[K${line.slice(0, 100)}`)
}
