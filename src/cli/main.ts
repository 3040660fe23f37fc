#!/usr/bin/env node
/** The program `holdfast`: parses, calls one command, turns errors into messages and exit codes. */
import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { demoCommandLine } from './commands/demo.js'
import { labCommandLine } from './commands/lab.js'
import { runCommandLine, withoutCommand } from './commands/run.js'
import { schemaCommandLine } from './commands/schema.js'
import { storeCommandLines } from './commands/store.js'
import { verifyCommandLine } from './commands/verify.js'
import { exitCodeOf, exits } from './exit.js'

async function main(argv: readonly string[]): Promise<void> {
  // What follows the first -- belongs to somebody else's command; commander would mix the two.
  const dashes = argv.indexOf('--')
  const own = dashes < 0 ? argv : argv.slice(0, dashes)
  const rest = dashes < 0 ? undefined : argv.slice(dashes + 1)
  const help = own.includes('--help') || own.includes('-h')
  if (own[0] === 'run' && rest === undefined && !help) throw withoutCommand(own[1])
  const program = new Command('holdfast')
    .description('Distributed locks that can prove they hold.')
    .version(version(), '-V, --version')
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'holdfast: ')) })
    .showHelpAfterError('(--help tells what there is)')
  runCommandLine(program, rest)
  storeCommandLines(program)
  schemaCommandLine(program)
  demoCommandLine(program)
  labCommandLine(program)
  verifyCommandLine(program)
  for (const command of program.commands) command.copyInheritedSettings(program)
  await program.parseAsync(own, { from: 'user' })
}

function version(): string {
  const manifest: unknown = JSON.parse(
    readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
  )
  return (manifest as { version: string }).version
}

main(process.argv.slice(2)).catch((error: unknown) => {
  if (error instanceof CommanderError) {
    // Help and version are no errors; commander has printed what there is to say.
    process.exitCode = error.exitCode === 0 ? 0 : exits.badInput
    return
  }
  process.exitCode = exitCodeOf(error)
  const internal = process.exitCode === exits.internal && error instanceof Error
  console.error(
    `holdfast: ${internal ? error.stack : error instanceof Error ? error.message : String(error)}`,
  )
})
