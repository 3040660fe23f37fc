/** Parses the command line, runs one command, and turns errors into messages and exit codes. */
import { CommanderError } from 'commander'
import { commandLine } from './command-line.js'
import { withoutCommand } from './commands/run.js'
import { badInput, CliError, endSoon, exits, toExitCode } from './exit.js'
import { toFailure } from './failure.js'
import { watchOutput } from './output.js'
import { json } from './print.js'
import { dismissEarly } from './run/spawn-helpers.js'

async function findCommand(argv: readonly string[]): Promise<void> {
  // In `run`, what follows -- is the command, which commander would mix with our own arguments. In other commands it is names.
  const dashes = argv.indexOf('--')
  const own = dashes < 0 ? argv : argv.slice(0, dashes)
  const rest = dashes < 0 || own[0] !== 'run' ? undefined : argv.slice(dashes + 1)
  if (own.includes('--json'))
    jsonTo = ['run', 'hold'].includes(own[0] ?? '') ? process.stderr : process.stdout
  const help = own.includes('--help') || own.includes('-h')
  if (own[0] === 'run' && rest === undefined && !help) throw withoutCommand(own[1])
  // The standard output of `run` belongs to its command, and `hold` releases the lock if its token cannot be printed.
  if (help || !['run', 'hold'].includes(own[0] ?? '')) watchOutput()
  const line = own[0] === 'run' ? own : argv
  await commandLine(rest, jsonTo === undefined).parseAsync(line, { from: 'user' })
}

/** Where `--json` prints; undefined: errors are for people. */
let jsonTo: NodeJS.WriteStream | undefined

/** Node exits with 0 once no timer or handle is left, even in the middle of a command. */
let over = false
process.once('exit', () => {
  if (over) return
  process.exitCode = exits.internal
  say(new CliError(exits.internal, 'ended before it was done'))
})

export function main(argv: readonly string[]): Promise<void> {
  return findCommand(argv).then(finished, failed)
}

function finished(): void {
  over = true
  dismissEarly()
}

function failed(error: unknown): void {
  over = true
  dismissEarly()
  endSoon()
  if (error instanceof CommanderError) {
    // Help and version are not errors; commander has printed everything that is for people.
    process.exitCode = error.exitCode === 0 ? 0 : exits.badInput
    if (jsonTo !== undefined && error.exitCode !== 0) say(badInput(error.message.replace(/^error: /, '')))
    return
  }
  say(error)
  process.exitCode = toExitCode(error)
}

/** For people on stderr; with `--json` as an object where the rest of the command's JSON goes. */
function say(error: unknown): void {
  const internal = toExitCode(error) === exits.internal && error instanceof Error
  if (jsonTo !== undefined) jsonTo.write(`${json({ event: 'failed', error: toFailure(error) })}\n`)
  else
    console.error(
      `holdfast: ${internal ? error.stack : error instanceof Error ? error.message : String(error)}`,
    )
}
