/** `doctor`: is this store set up for locks? Answers within seconds, and changes nothing. */
import type { Command } from 'commander'
import { target } from '../connect.js'
import { endSoon, exits } from '../exit.js'
import { json } from '../print.js'
import { reportStore } from '../store-url.js'
import type { TlsOptions } from '../tls-options.js'
import { onText, tlsOptions, verboseText } from './options.js'

interface Options extends TlsOptions {
  readonly on?: string
  readonly strict?: true
  readonly json?: true
  readonly verbose?: true
}

export function doctorCommandLine(program: Command): void {
  const command = program
    .command('doctor')
    .summary('say within seconds whether a store is set up for locks')
    .description(
      'Says within seconds whether a store is set up for locks: what was found, what it means for locks, and which setting to change. ' +
        'Only reads: it takes no lock, makes no table, and leaves nothing behind.',
    )
    .option('--on <store>', onText)
  tlsOptions(command)
    .option('--strict', `end with ${exits.warned} when there are warnings`)
    .option('--json', 'print JSON')
    .option('-v, --verbose', verboseText)
    .action(doctor)
}

async function doctor(options: Options): Promise<void> {
  const store = target(options.on, options)
  reportStore(store, options)
  const [{ examine }, { diagnose, formatDiagnosis }, { default: colors }] = await Promise.all([
    import('../doctor/examine.js'),
    import('../doctor/report.js'),
    import('picocolors'),
  ])
  const checks = await examine(store).finally(endSoon)
  const diagnosis = diagnose(store.shown, checks)
  const paints = { problem: colors.red, warning: colors.yellow, unknown: colors.dim, ok: colors.green }
  console.log(
    options.json === true
      ? json(diagnosis)
      : formatDiagnosis(diagnosis, (level, words) => paints[level](words)),
  )
  if (diagnosis.verdict === 'problems') process.exitCode = exits.failed
  else if (diagnosis.verdict === 'warnings' && options.strict === true) process.exitCode = exits.warned
}
