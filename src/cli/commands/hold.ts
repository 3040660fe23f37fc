/** `holdfast hold NAME --for PID`: holds a lock for a part of a script. */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { badInput, CliError, exits } from '../exit.js'
import { mayKeepErrors } from '../hold/errors.js'
import { checkFolder } from '../hold/handle.js'
import type { HoldPlan, ToStarter } from '../hold/messages.js'
import { parseOwner } from '../hold/owner.js'
import { withoutCallers } from '../run/descriptors.js'
import type { Report } from '../run/report.js'
import { stopSelf } from '../run/signals.js'
import { type ClaimOptions, claimOptions, createRequest } from './claim.js'

interface HoldOptions extends ClaimOptions {
  readonly for?: string
}

const wording = {
  noWait: 'one attempt',
  maxHold: 'end the process when it holds the lock longer',
  killAfter: 'from TERM to KILL when the process must end (default: 5s, less for a short ttl)',
}

export function holdCommandLine(program: Command): void {
  const hold = program
    .command('hold')
    .summary('hold a lock for a part of a script')
    .description(
      'Holds a lock until holdfast release gives it back or the process ends, and prints its token. If the lease is lost, the process is ended with its process group.',
    )
    .argument('<name>', 'the lock')
    .option('--for <pid>', 'the process that the lock is held for: $$ in a script')
  claimOptions(hold, wording).action(async (name: string, options: HoldOptions) => {
    if (options.for === undefined)
      throw badInput(`hold needs to know for which process: holdfast hold ${name} --for $$`)
    const owner = parseOwner(options.for, name)
    checkFolder()
    const { claim, conflictExitCode, report } = await createRequest([name], options, 'owner')
    const { json = false, quiet = false } = options
    const told = mayKeepErrors(owner) ? { json, quiet } : undefined
    process.exitCode = await start({ type: 'hold', claim, conflictExitCode, owner, told }, report)
  })
}

/** Resolves once the lock is held, or will not be. */
function start(plan: HoldPlan, report: Report): Promise<number> {
  const background = startBackground(plan)
  // The callback of the write reports it.
  process.stdout.on('error', () => undefined)
  return new Promise((resolve, reject) => {
    const gone = () => {
      report.waited()
      reject(new CliError(exits.internal, 'the process that should hold the lock ended'))
    }
    // As in the supervisor of a run: the claim ends, and continued, this process claims anew.
    const suspended = () => {
      report.waited()
      background.removeAllListeners('message').off('disconnect', gone)
      background.once('disconnect', () => stopSelf(() => resolve(start(plan, report))))
      background.disconnect()
    }
    const decided = () => {
      background.off('disconnect', gone)
      process.off('SIGTSTP', suspended)
    }
    process.once('SIGTSTP', suspended)
    background.once('error', reject)
    background.once('disconnect', gone)
    background.on('message', (message: ToStarter) => {
      switch (message.type) {
        case 'waiting':
          return report.waiting(...message.args)
        case 'waited':
          return report.waited()
        case 'tell':
          return report.write(...message.args)
        case 'over':
          decided()
          return resolve(message.exitCode)
        case 'held':
          decided()
          return resolve(keep(background, message.token))
      }
    })
    background.send(plan)
  })
}

function startBackground({ told }: HoldPlan): ChildProcess {
  return fork(fileURLToPath(new URL('../hold/background.js', import.meta.url)), [], {
    detached: true,
    serialization: 'advanced',
    execArgv: [],
    // The child outlives this process: a shell that reads our output would wait for the child to end, too.
    stdio: withoutCallers(['ignore', 'ignore', 'ignore', 'ipc', told === undefined ? 'ignore' : 2]),
  })
}

/** Prints the token and leaves the process behind. */
function keep(background: ChildProcess, token: number): Promise<number> {
  return new Promise((resolve, reject) => {
    process.stdout.write(`${token}\n`, (error) => {
      if (error) {
        background.disconnect()
        const text = `the token could not be printed (${error.message}); the lock is released`
        return reject(new CliError(exits.output, text))
      }
      background.send({ type: 'kept' }, () => {
        background.disconnect()
        background.unref()
        resolve(0)
      })
    })
  })
}
