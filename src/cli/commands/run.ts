/** `holdfast run NAME… -- command…`: runs a command while holding one lock, or several at once. */
import type { Command } from 'commander'
import { badInput } from '../exit.js'
import { type ClaimOptions, claimOptions, createRequest } from './claim.js'

const wording = {
  noWait: 'try once; skip if held, or if run within --min-hold',
  maxHold: 'stop the command when it runs longer',
  killAfter: 'from TERM to KILL when it must stop (default: 5s, less for a short ttl)',
}

export function runCommandLine(program: Command, command: readonly string[] | undefined): void {
  const run = program
    .command('run')
    .summary('run a command while holding a lock')
    .description('Runs a command while holding a lock. Options go before --, the command after it.')
    .usage('NAME… [options] -- command [arguments…]')
    .argument(
      '<name...>',
      'the lock, for example deploy or account:42; several are taken all together or not at all',
    )
  claimOptions(run, wording)
    .option(
      '--min-hold <duration>',
      'keep the lock at least that long; with --no-wait: no other run begins within that time',
    )
    .action(async (names: string[], options: ClaimOptions) => {
      if (command === undefined) throw withoutCommand(names[0])
      const [{ claim, conflictExitCode, report }, { runCommand }] = await Promise.all([
        createRequest(names, options, 'command'),
        import('../run/supervisor.js'),
      ])
      process.exitCode = await runCommand({ claim, command, env: process.env, conflictExitCode }, report)
    })
}

/** Checked first: commander would take the command for our own arguments and options. */
export function withoutCommand(name = 'deploy'): Error {
  return badInput(`the command to run goes after --, as in: holdfast run ${name} -- ./deploy.sh`)
}
