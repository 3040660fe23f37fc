/** `verify`: are locks on this store safe? Set-up, conformance and a fault run on the client's side, as a report for a review. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { target } from '../connect.js'
import { badInput, exits } from '../exit.js'
import { json } from '../print.js'

interface Options {
  readonly on?: string
  readonly minutes: string
  readonly only?: string
  readonly out?: string
  readonly json?: true
}

export function verifyCommandLine(program: Command): void {
  program
    .command('verify')
    .summary('check that locks on a store are safe')
    .description(
      'Check that locks on a store are safe: its set-up, the conformance suite, and a run in which processes of this command are paused, blocked, killed and cut off. Nothing is done to the store, and no lock is touched but those made for it.',
    )
    .option('--on <url>', 'the store (default: $HOLDFAST_URL, else local:)')
    .option('--minutes <n>', 'of faults, after the conformance suite', '1')
    .option(
      '--only <words>',
      'of the conformance suite, tests with one of these words (between commas) in their names',
    )
    .option('--out <folder>', 'write report.md and report.json there')
    .option('--json', 'print JSON')
    .action(verify)
}

async function verify(options: Options): Promise<void> {
  const minutes = Number(options.minutes)
  if (!(minutes > 0 && minutes <= 1_440)) {
    throw badInput(`--minutes must be a number above 0 and up to 1440, got '${options.minutes}'`)
  }
  const url = options.on ?? (process.env.HOLDFAST_URL || 'local:')
  const store = target(url)
  const { lazily, sample } = await import('../verify/lazily.js')
  const like = await sample(store)
  const [{ setupOf }, { runSuite }, { runFaults }, { markdown, verdictOf }] = await Promise.all([
    import('../verify/setup.js'),
    import('../verify/suite.js'),
    import('../verify/faults.js'),
    import('../verify/report.js'),
  ])
  const tell = progress()
  tell('looking at the set-up')
  const setup = await setupOf(url)
  const suite = await runSuite(url, store, like, options.only?.split(',') ?? [], tell)
  const ttl = Math.max(1_000, 2 * like.traits.minTtl)
  const faults = await runFaults({
    url,
    seconds: 60 * minutes,
    ttl,
    direct: lazily(store.connect, like),
    tell,
  })
  tell('')
  const { version } = JSON.parse(
    readFileSync(new URL('../../../../package.json', import.meta.url), 'utf8'),
  ) as {
    version: string
  }
  const report = {
    ...{ url: store.shown, driver: like.name, holdfast: version, node: process.version },
    ...{ at: new Date().toISOString(), setup, suite, faults },
  }
  const verdict = verdictOf(report)
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

/** One line that is written over, on a terminal only. */
function progress(): (line: string) => void {
  if (!process.stderr.isTTY) return () => undefined
  return (line) => void process.stderr.write(`\r\x1b[K${line.slice(0, 100)}`)
}
