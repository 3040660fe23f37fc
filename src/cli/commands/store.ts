/** `ls`, `inspect` and `release`: what operators ask a store. */
import type { Command } from 'commander'
import type { LockStatus, Locks } from 'holdfast'
import { type StoreTarget, target } from '../connect.js'
import { badInput, CliError, exits } from '../exit.js'
import { probe } from '../explain.js'
import { forceSeen } from '../force-seen.js'
import { parseDirectory } from '../local-directory.js'
import { holderCells, holderHeadings, json, plain, table, waiterCells } from '../print.js'
import { reportStore } from '../store-url.js'
import type { TlsOptions } from '../tls-options.js'
import { withStore } from '../with-store.js'
import { onText, tlsOptions, verboseText } from './options.js'

interface StoreOptions extends TlsOptions {
  readonly on?: string
  readonly json?: true
  readonly verbose?: true
}
interface ReleaseOptions extends StoreOptions {
  readonly yes?: true
  readonly token?: string
}

export function storeCommandLines(program: Command): void {
  command(program, 'ls', 'list the locks that are held or waited for')
    .argument('[prefix]', 'only names that begin with it')
    .action(async (prefix: string | undefined, options: StoreOptions) => {
      const store = findStore(options)
      const all = await withLocks(store, (locks) => locks.list(prefix))
      const directory = parseDirectory(store.url)
      const data = { store: store.shown, ...(directory && { directory }), locks: all }
      await print(options, data, () => listing(all, prefix, directory))
    })
  command(program, 'inspect', 'who holds a lock, who waits, since when, with what note')
    .argument('<name>', 'the lock')
    .action(async (name: string, options: StoreOptions) => {
      const status = await withLocks(findStore(options), (locks) => locks.inspect(name))
      await print(options, status, () => story(status))
    })
  command(program, 'release', 'take a lock from its holder')
    .argument('<name>', 'the lock')
    .option('-y, --yes', 'do not ask')
    .option('--token <n>', 'give back what holdfast hold printed this token for, and nothing else')
    .action(release)
}

function command(program: Command, name: string, summary: string): Command {
  const made = program
    .command(name)
    .summary(summary)
    .description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`)
    .option('--on <store>', onText)
  return tlsOptions(made).option('--json', 'print JSON').option('-v, --verbose', verboseText)
}

function findStore(options: StoreOptions): StoreTarget {
  const store = target(options.on, options)
  reportStore(store, options)
  return store
}

async function withLocks<R>(store: StoreTarget, use: (locks: Locks) => Promise<R>): Promise<R> {
  // Knock first: a client opened before a server is known to accept connections would have to be closed.
  await probe(store)
  return await withStore(store, (locks) => Promise.race([use(locks), noAnswer()]))
}

/** Some clients keep trying to reach a server for ever. In ms. */
const timeout = 10_000

function noAnswer(): Promise<never> {
  return new Promise((_, reject) => {
    const seconds = timeout / 1000
    const late = () =>
      reject(Object.assign(new Error(`no answer within ${seconds} s`), { code: 'UNAVAILABLE' }))
    setTimeout(late, timeout).unref()
  })
}

async function print(options: StoreOptions, data: unknown, text: () => Promise<string>): Promise<void> {
  console.log(options.json === true ? json(data) : await text())
}

async function listing(
  all: readonly LockStatus[],
  prefix: string | undefined,
  directory: string | undefined,
): Promise<string> {
  const where = directory === undefined ? '' : ` in ${plain(directory)}`
  if (all.length === 0) {
    return `no lock${prefix === undefined ? '' : ` that begins with "${plain(prefix)}"`} is held or waited for${where}`
  }
  const rows = all.flatMap(({ name, holders, waiters, unlisted }) => {
    const waiting = waiters.length === 0 ? '' : `${waiters.length}${unlisted === undefined ? '' : '+'}`
    if (holders.length === 0) return [[plain(name), '', '', '', '', '', '', waiting]]
    return holders.map((holder, i) => [
      i === 0 ? plain(name) : '',
      ...holderCells(holder),
      i === 0 ? waiting : '',
    ])
  })
  const drawn = await table(['NAME', ...holderHeadings, 'WAITING'], rows)
  return directory === undefined ? drawn : `${drawn}\n\nthe locks${where}`
}

async function story({ name, holders, waiters, lastToken, unlisted }: LockStatus): Promise<string> {
  const lines = [`"${plain(name)}" is ${holders.length === 0 ? 'free' : 'held'}`]
  if (holders.length === 0 && lastToken > 0) lines[0] += `; its newest token is ${lastToken}`
  if (holders.length > 0) lines.push('', await table(holderHeadings, holders.map(holderCells)))
  if (waiters.length > 0) {
    lines.push('', await table(['PLACE', 'WANTS', 'WAITING', 'FOR', 'NOTE'], waiters.map(waiterCells)))
  }
  if (unlisted !== undefined) lines.push(`and ${unlisted} more`)
  return lines.join('\n')
}

/** The holder is notified, but nothing makes it stop first: until it does, the lock excludes nobody. */
async function release(name: string, options: ReleaseOptions): Promise<void> {
  if (options.token !== undefined) return await releaseHeld(name, options.token, options)
  if (options.yes !== true && !(process.stdin.isTTY && process.stderr.isTTY)) {
    throw badInput(
      `release takes "${name}" from its holder, who may still be at work; with no terminal to ask on, it needs --yes`,
    )
  }
  const store = findStore(options)
  const status = await withLocks(store, (locks) => locks.inspect(name))
  const held = status.holders.length > 0
  if (held && options.yes !== true && !(await confirmed(await story(status)))) {
    throw new CliError(exits.failed, 'nothing was released')
  }
  const seen = status.holders.map(({ attempt }) => attempt)
  // With --yes nobody looked, so any holder is meant.
  const force = (locks: Locks) =>
    options.yes === true ? locks.forceRelease(name) : forceSeen(locks, name, seen)
  const taken = held ? await withLocks(store, force) : 0
  if (taken === undefined)
    throw new CliError(
      exits.failed,
      `the holders of "${plain(name)}" have changed since you were asked; nothing was released`,
    )
  await print(options, { name, released: taken }, async () => {
    if (taken === 0) return `"${plain(name)}" was not held`
    return `released "${plain(name)}"; ${taken === 1 ? 'its holder was' : `${taken} holders were`} notified`
  })
  if (taken === 0) process.exitCode = exits.failed
}

/** The process that holds the lock releases it; this process does not contact the store. */
async function releaseHeld(name: string, text: string, options: ReleaseOptions): Promise<void> {
  // Beyond the safe integers it would be rounded to the token of another lease.
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(Number(text)))
    throw badInput(`--token must be a number that holdfast hold printed, got '${plain(text)}'`)
  const { askForRelease } = await import('../hold/handle.js')
  const { exitCode, messages } = await askForRelease({
    url: findStore(options).url,
    name,
    token: Number(text),
  })
  // Neither released nor lost, as when the store did not answer: only what is known is said.
  if (exitCode !== 0 && exitCode !== exits.lost)
    throw new CliError(exitCode, messages.join('; ') || `"${plain(name)}" may not be released`)
  for (const message of messages) console.error(`holdfast: ${message}`)
  await print(options, { name, released: exitCode === 0 ? 1 : 0 }, async () =>
    exitCode === 0 ? `released "${plain(name)}"` : `"${plain(name)}" was not held any more`,
  )
  process.exitCode = exitCode
}

async function confirmed(about: string): Promise<boolean> {
  const { createInterface } = await import('node:readline/promises')
  const prompt = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const warning =
      'Whoever holds it may still be at work when the next one is granted. Release it anyway? [y/N] '
    // After the end of the input (^D) the question would stay open for ever.
    const ended = new Promise<string>((resolve) => {
      prompt.once('close', () => resolve('\n'))
    })
    prompt.once('SIGINT', () => {
      prompt.close()
      process.kill(process.pid, 'SIGINT')
    })
    const answer = await Promise.race([prompt.question(`${about}\n\n${warning}`), ended])
    if (answer === '\n') process.stderr.write(answer)
    return /^y(es)?$/i.test(answer.trim())
  } finally {
    prompt.close()
  }
}
