/** Common to `run` and `hold`: the options of an acquisition. */
import type { Command } from 'commander'
import { type StoreTarget, target } from '../connect.js'
import { parseDuration } from '../duration.js'
import { badInput, exits } from '../exit.js'
import { plain } from '../print.js'
import type { RequestedMode, RunRequest } from '../run/messages.js'
import { minTtl, resolveLimits } from '../run/policy.js'
import type { Report } from '../run/report.js'
import { reportStore } from '../store-url.js'
import type { TlsOptions } from '../tls-options.js'
import { onText, tlsOptions, verboseText } from './options.js'

export interface ClaimOptions extends TlsOptions {
  readonly on?: string
  /** False: `--no-wait`. */
  readonly wait?: string | false
  readonly ttl?: string
  readonly shared?: true
  readonly permits?: string
  readonly minHold?: string
  readonly maxHold?: string
  readonly killAfter?: string
  readonly conflictExitCode?: string
  readonly note?: string
  readonly fair?: true
  readonly quiet?: true
  readonly json?: true
  readonly verbose?: true
}

/** Texts of the options that depend on what the lock is held for. */
export interface Wording {
  readonly noWait: string
  readonly maxHold: string
  readonly killAfter: string
}

const defaultWait = 30_000

export function claimOptions(command: Command, { noWait, maxHold, killAfter }: Wording): Command {
  refuseBothWaits(command)
  command
    .option('--wait <duration>', 'how long to wait for the lock: 500ms, 30s, 5m, forever (default: 30s)')
    .option('--no-wait', noWait)
    .option('--ttl <duration>', 'how long the lock outlives a crash of this machine (default: 30s)')
    .option('--shared', 'as one of many readers')
    .option('--permits <n/N>', 'as a semaphore: take n of its N permits')
    .option('--fair', 'strictly first come, first served')
    .option('--max-hold <duration>', maxHold)
    .option('--kill-after <duration>', killAfter)
    .option('-E, --conflict-exit-code <n>', `when the lock was not free (default: ${exits.conflict})`)
    .option('--note <text>', 'what it is for, shown to waiters')
    .option('--on <store>', onText)
  return tlsOptions(command)
    .option('-q, --quiet', 'print only errors; a lock that was not free is not one')
    .option('--json', 'tell what happens as lines of JSON on stderr')
    .option('-v, --verbose', verboseText)
}

/** To commander they are one option, of which the last value counts. */
function refuseBothWaits(command: Command): void {
  const given = new Set<string>()
  for (const name of ['wait', 'no-wait']) command.on(`option:${name}`, () => given.add(name))
  command.hook('preAction', () => {
    if (given.size > 1) throw badInput('--wait and --no-wait exclude each other; leave out one')
  })
}

/** Validates the request; sends nothing yet. @throws CliError */
export async function createRequest(
  names: readonly string[],
  options: ClaimOptions,
  holder: RunRequest['for'],
): Promise<{
  readonly claim: RunRequest
  readonly store: StoreTarget
  readonly conflictExitCode: number
  readonly report: Report
}> {
  const duration = (option: string, text: string | undefined, least = 0) =>
    text === undefined ? undefined : parseDuration(option, text, { least })
  const terms = resolveLimits({
    ttl: duration('--ttl', options.ttl, minTtl),
    killAfter: duration('--kill-after', options.killAfter),
    minHold: duration('--min-hold', options.minHold),
    maxHold: duration('--max-hold', options.maxHold, 1),
  })
  const requestedMode = parseMode(options)
  checkNames(names)
  const wait = parseWait(options.wait)
  const conflictExitCode = exitCode(options.conflictExitCode)
  // Throws here what the lock process would throw later.
  const store = target(options.on, options)
  const { createReport } = await import('../run/report.js')
  const report = createReport({
    names,
    json: options.json === true,
    quiet: options.quiet === true,
    stream: process.stderr,
  })
  reportStore(store, options)
  const claim: RunRequest = {
    type: 'claim',
    ...terms,
    for: holder,
    on: store.url,
    insecure: store.insecure,
    names,
    mode: requestedMode,
    wait,
    fair: options.fair === true,
    hasKillAfter: options.killAfter !== undefined,
    note: options.note,
    watched: process.stderr.isTTY && options.quiet !== true,
  }
  return { claim, store, conflictExitCode, report }
}

/** The library reports an invalid name. */
function checkNames(names: readonly string[]): void {
  const twice = names.find((name, i) => names.indexOf(name) < i)
  if (twice !== undefined) throw badInput(`the lock "${plain(twice)}" is named twice; name it once`)
}

function parseWait(wait: string | false | undefined): number {
  if (typeof wait === 'string') return parseDuration('--wait', wait, { forever: true })
  return wait === false ? 0 : defaultWait
}

function parseMode({ shared, permits }: ClaimOptions): RequestedMode {
  if (permits === undefined) return { kind: shared === true ? 'shared' : 'exclusive' }
  if (shared === true) throw badInput('--shared and --permits exclude each other; leave out one')
  const [, take, of] = /^(\d+)\/(\d+)$/.exec(permits) ?? []
  if (take === undefined || of === undefined) {
    throw badInput(`--permits must be n/N, for example 1/5 for one of five, got '${permits}'`)
  }
  if (Number(take) < 1 || Number(take) > Number(of)) {
    throw badInput(`--permits must take from 1 to ${of} of ${of}, got '${permits}'`)
  }
  return { kind: 'permits', take: Number(take), of: Number(of) }
}

function exitCode(text: string | undefined): number {
  if (text === undefined) return exits.conflict
  if (!/^\d+$/.test(text) || Number(text) > 255) {
    throw badInput(`--conflict-exit-code must be a number from 0 to 255, got '${text}'`)
  }
  return Number(text)
}
