/** `holdfast run NAME -- command…`: runs a command while holding a lock. */
import type { Command } from 'commander'
import { target } from '../connect.js'
import { parseDuration } from '../duration.js'
import { badInput, exits } from '../exit.js'
import type { Asked } from '../run/messages.js'
import { leastTtl, termsOf } from '../run/policy.js'

interface RunOptions {
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
}

const usualWait = 30_000

export function runCommandLine(program: Command, command: readonly string[] | undefined): void {
  program
    .command('run')
    .summary('run a command while holding a lock')
    .description('Runs a command while holding a lock. Options go before --, the command after it.')
    .usage('NAME [options] -- command [arguments…]')
    .argument('<name>', 'the lock, for example deploy or account:42')
    .option('--wait <duration>', 'how long to wait for the lock: 500ms, 30s, 5m, forever (default: 30s)')
    .option('--no-wait', 'one attempt; skip it when somebody is at it, or was within --min-hold')
    .option('--ttl <duration>', 'how long the lock outlives a crash of this machine (default: 30s)')
    .option('--shared', 'as one of many readers')
    .option('--permits <n/N>', 'as a semaphore: take n of its N permits')
    .option('--fair', 'strictly first come, first served')
    .option(
      '--min-hold <duration>',
      'keep the lock at least that long; with --no-wait: no other run begins within that time',
    )
    .option('--max-hold <duration>', 'stop the command when it runs longer')
    .option(
      '--kill-after <duration>',
      'from TERM to KILL when it must stop (default: 5s, less for a short ttl)',
    )
    .option('-E, --conflict-exit-code <n>', `when the lock was not free (default: ${exits.conflict})`)
    .option('--note <text>', 'what it is for, shown to those who wait')
    .option('--on <url>', 'the store (default: $HOLDFAST_URL, else local:)')
    .option('-q, --quiet', 'say nothing but errors')
    .option('--json', 'tell what happens as lines of JSON on stderr')
    .action(async (name: string, options: RunOptions) => {
      if (command === undefined) throw withoutCommand(name)
      process.exitCode = await start(name, options, command)
    })
}

/** Checked before commander takes the command for arguments and options of ours. */
export function withoutCommand(name = 'deploy'): Error {
  return badInput(`the command to run goes after --, as in: holdfast run ${name} -- ./deploy.sh`)
}

async function start(name: string, options: RunOptions, command: readonly string[]): Promise<number> {
  const on = options.on ?? process.env.HOLDFAST_URL
  const duration = (option: string, text: string | undefined, least = 0) =>
    text === undefined ? undefined : parseDuration(option, text, { least })
  const terms = termsOf({
    ttl: duration('--ttl', options.ttl, leastTtl),
    killAfter: duration('--kill-after', options.killAfter),
    minHold: duration('--min-hold', options.minHold),
    maxHold: duration('--max-hold', options.maxHold, 1),
  })
  const asked = askedOf(options)
  const wait = waitOf(options.wait)
  const conflictExitCode = exitCode(options.conflictExitCode)
  // Throws here what the keeper would throw later.
  target(on)
  const [{ runCommand }, { report }] = await Promise.all([
    import('../run/front.js'),
    import('../run/report.js'),
  ])
  const told = report({
    name,
    json: options.json === true,
    quiet: options.quiet === true,
    stream: process.stderr,
  })
  const watched = process.stderr.isTTY && options.quiet !== true
  const claim = {
    type: 'claim',
    ...terms,
    on,
    name,
    asked,
    wait,
    fair: options.fair === true,
    note: options.note,
    watched,
  } as const
  return await runCommand({ claim, command, env: process.env, conflictExitCode }, told)
}

function waitOf(wait: string | false | undefined): number {
  if (typeof wait === 'string') return parseDuration('--wait', wait, { forever: true })
  return wait === false ? 0 : usualWait
}

function askedOf({ shared, permits }: RunOptions): Asked {
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
