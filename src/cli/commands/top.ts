/** `top`: the locks of a store, live. */
import type { Command } from 'commander'
import type { LockStatus } from 'holdfast'
import { target } from '../connect.js'
import { formatDuration, parseDuration } from '../duration.js'
import { badInput } from '../exit.js'
import { probe } from '../explain.js'
import { forceSeen } from '../force-seen.js'
import { brief, json, plain, table } from '../print.js'
import { reportStore } from '../store-url.js'
import type { TlsOptions } from '../tls-options.js'
import { chosen, Rates, type Row, type Sort, sorts, totals } from '../top/model.js'
import { withStore } from '../with-store.js'
import { onText, tlsOptions, verboseText } from './options.js'

interface TopOptions extends TlsOptions {
  readonly on?: string
  readonly every: string
  readonly sort: Sort
  readonly once?: true
  readonly json?: true
  readonly verbose?: true
}

/** In ms: less would be a load for the store, and nobody reads so fast. */
const minInterval = 500

export function topCommandLine(program: Command): void {
  const command = program
    .command('top')
    .summary('who holds, who waits, live')
    .description('Who holds, who waits, live: the names with the most waiters first. ? shows the keys.')
    .argument('[prefix]', 'only names that begin with it')
    .option('--on <store>', onText)
  tlsOptions(command)
    .option('--every <duration>', 'time from one list to the next', '2s')
    .addOption(sortOption(program))
    .option('--once', 'print one list and end')
    .option('--json', 'with --once: print JSON')
    .option('-v, --verbose', verboseText)
    .action(top)
}

function sortOption(program: Command) {
  return program
    .createOption('--sort <column>', 'order of the names')
    .choices([...sorts])
    .default('waiting')
}

async function top(prefix: string | undefined, options: TopOptions): Promise<void> {
  const every = parseDuration('--every', options.every, { least: minInterval })
  const { once = false } = options
  if (options.json === true && !once) throw badInput('--json needs --once; the live view is for people')
  if (!once && !(process.stdin.isTTY && process.stdout.isTTY))
    throw badInput('top needs a terminal; --once prints one list, with --json as JSON')
  const store = target(options.on, options)
  reportStore(store, options)
  await probe(store)
  const signal = await withStore(store, async (locks, answered) => {
    const list = () => withinTimeout(locks.list(prefix))
    // The first list decides whether the store can be used at all, before the terminal is taken over.
    const first = await list()
    answered()
    if (once) return await print(first, options)
    const { live } = await import('../top/live.js')
    const force = (name: string, seen: readonly string[]) => withinTimeout(forceSeen(locks, name, seen))
    return await live({ store: store.shown, every, sort: options.sort, first, list, force })
  })
  // Its caller sees which signal ended it. Without this, Node aborts when it gives back a terminal that is gone.
  if (signal !== undefined) process.kill(process.pid, signal)
}

/** Some clients keep trying to reach a server for ever. */
async function withinTimeout<R>(work: Promise<R>): Promise<R> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const error = Object.assign(new Error('no answer within 10 s'), { code: 'BACKEND' })
    timer = setTimeout(reject, 10_000, error)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

async function print(list: readonly LockStatus[], options: TopOptions): Promise<void> {
  const rows = chosen(new Rates().rows(list, 0), '', options.sort)
  if (options.json !== true) return console.log(await listing(rows))
  const locks = rows.map(({ name, waiting, heldFor, holders, waiters }) => ({
    ...{ name, waiting, heldFor: heldFor ?? null, holders },
    waiters: waiters.map((waiter, i) => ({ place: i + 1, ...waiter })),
  }))
  console.log(json({ ...totals(rows), locks }))
}

async function listing(rows: readonly Row[]): Promise<string> {
  if (rows.length === 0) return 'nothing is held or waited for'
  const cells = rows.map(({ name, waiting, heldFor, holders }) => [
    plain(name),
    `${waiting}`,
    heldFor === undefined ? 'free' : formatDuration(heldFor),
    holders.length > 1 ? `${holders.length} holders` : brief(holders[0]?.client ?? ''),
    brief(holders[0]?.note ?? ''),
  ])
  return await table(['NAME', 'WAITING', 'HELD FOR', 'HELD BY', 'NOTE'], cells)
}
